package waftest

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// fortunes is where Debian puts its collections of sayings.
const fortunes = "/usr/share/games/fortunes"

// languages are what is read of them, as files or folders.
var languages = map[string][]string{
	"Bulgarian": {"bg"}, "Chinese": {"chinese", "song100", "tang300"}, "Czech": {"cs"}, "English": {"computers", "humorists", "people", "science", "wisdom"},
	"Esperanto": {"eo"}, "German": {"de"}, "Irish": {"ga"}, "Italian": {"it"}, "Polish": {"pl"}, "Portuguese": {"brasil"}, "Russian": {"ru"},
	"Spanish": {"es"},
}

// mostTexts is how many texts of one language are asked, spread over all.
const mostTexts = 650

// Prose asks with the texts of twelve languages, each as a string in JSON, and fails if more than
// permille of them are blocked. Without Debian's fortunes it is skipped.
func Prose(t *testing.T, w *waf.WAF, permille float64) {
	all, blocked := 0, 0
	for _, language := range slices.Sorted(maps.Keys(languages)) {
		texts := collection(t, language)
		hits := map[string]int{}
		n := 0
		for _, text := range texts {
			body, err := json.Marshal(map[string]string{"text": text})
			if err != nil {
				t.Fatal(err)
			}
			in := post("", "application/json", string(body), weir.Clean).In
			var r weir.Inspection
			if w.Inspect(t.Context(), &in, &r); r.Verdict == weir.Blocked {
				n++
				for _, m := range r.Matches {
					hits[m.Rule]++
				}
			}
		}
		t.Logf("%-10s %4d texts, %2d blocked: %v", language, len(texts), n, hits)
		all, blocked = all+len(texts), blocked+n
	}
	share := 1000 * float64(blocked) / float64(all)
	t.Logf("%d of %d blocked, %.1f of a thousand", blocked, all, share)
	if share > permille {
		t.Errorf("%.1f of a thousand are blocked, want at most %v", share, permille)
	}
}

// collection returns the texts of a language.
func collection(t *testing.T, language string) []string {
	t.Helper()
	var texts []string
	seen := map[string]bool{}
	for _, name := range languages[language] {
		err := fs.WalkDir(os.DirFS(fortunes), name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".dat") || strings.Contains(path, "/off/") {
				return err
			}
			data, err := fs.ReadFile(os.DirFS(fortunes), path)
			for text := range strings.SplitSeq("\n"+string(data)+"\n", "\n%\n") {
				if text = strings.TrimSpace(text); text != "" && !seen[text] {
					seen[text] = true
					texts = append(texts, text)
				}
			}
			return err
		})
		if err != nil {
			t.Skipf("the texts are not there: tools/install has them installed: %v", err)
		}
	}
	return spread(texts, mostTexts)
}

// spread returns most of a list, evenly.
func spread(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	some := make([]string, 0, most)
	for i := range most {
		some = append(some, list[i*len(list)/most])
	}
	return some
}

package browser_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "take the screenshots of the documentation anew")

// mostBytes is how large a picture of the documentation may be, in bytes.
const mostBytes = 150 << 10

// TestPictures looks after the screenshots of the documentation. With -update it takes them anew.
func TestPictures(t *testing.T) {
	pictures := filepath.Join("..", "..", "..", "docs", "img")
	if *update {
		take(t, pictures)
	}
	for _, name := range []string{"dashboard-light.png", "dashboard-dark.png", "dashboard-phone.png"} {
		data, err := os.ReadFile(filepath.Join(pictures, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || len(data) > mostBytes {
			t.Errorf("%s: %d bytes, %v; want a PNG of at most %d", name, len(data), err, mostBytes)
		}
	}
}

func take(t *testing.T, dir string) {
	s := newStandIn(t)
	b := open(t, s.URL, wide, 1300)
	b.await(live)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		b.picture(filepath.Join(dir, "dashboard-"+scheme+".png"))
	}
	b.run(chromedp.EmulateViewport(narrow, 1300))
	b.prefer("light")
	b.picture(filepath.Join(dir, "dashboard-phone.png"))
}

// picture writes what is seen in the window to a file, in the 256 colours that it has most of.
func (b *browser) picture(name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	few := image.NewPaletted(full.Bounds(), commonest(full))
	draw.Draw(few, few.Bounds(), full, image.Point{}, draw.Src)
	file, err := os.Create(name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(file, few); err != nil {
		b.t.Fatal(err)
	}
}

// commonest returns the colours that most of the picture's points have, at most 256 that differ to the eye.
func commonest(picture image.Image) color.Palette {
	const seen = 0xf8 // the bits of a byte that make a difference
	points, shades := map[color.Color]int{}, map[color.Color]color.Color{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			exact := color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)
			coarse := color.RGBA{exact.R & seen, exact.G & seen, exact.B & seen, exact.A}
			if shades[coarse] == nil {
				shades[coarse] = exact
			}
			points[shades[coarse]]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(points), func(a, b color.Color) int { return points[b] - points[a] })
	return colours[:min(len(colours), 256)]
}

// Package manifests_test judges the Helm chart and the compose file by the libraries of Helm, Kubernetes, the
// Prometheus operator and Compose. It is a module of its own, so that they never become dependencies of Weir.
package manifests_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/weir"

// kinds are what the chart may render.
func kinds() map[string]any {
	return map[string]any{
		"v1 ConfigMap": new(core.ConfigMap), "v1 Service": new(core.Service), "v1 ServiceAccount": new(core.ServiceAccount),
		"apps/v1 Deployment": new(apps.Deployment), "policy/v1 PodDisruptionBudget": new(policy.PodDisruptionBudget),
		"autoscaling/v2 HorizontalPodAutoscaler":  new(autoscaling.HorizontalPodAutoscaler),
		"networking.k8s.io/v1 NetworkPolicy":      new(networking.NetworkPolicy),
		"monitoring.coreos.com/v1 ServiceMonitor": new(monitoring.ServiceMonitor), "monitoring.coreos.com/v1 PrometheusRule": new(monitoring.PrometheusRule),
	}
}

func readValues(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parseValues(t, string(text))
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValues([]byte(text)) // as helm does
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// render returns what helm install would send, a document each.
func render(values map[string]any) ([]string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "edge", Namespace: "shop", IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			documents = append(documents, strings.Split("\n"+files[name], "\n---")...)
		}
	}
	return slices.DeleteFunc(documents, func(d string) bool { return strings.TrimSpace(d) == "" }), nil
}

// decode decodes a document into the type that it says it is, strictly: an unknown or repeated field fails.
func decode(document string) (kind string, object any, err error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		return "", nil, err
	}
	kind = head.APIVersion + " " + head.Kind
	object, ok := kinds()[kind]
	if !ok {
		return kind, nil, fmt.Errorf("%s: the chart has no such kind", kind)
	}
	return kind, object, yaml.UnmarshalStrict([]byte(document), object)
}

// objects returns what the chart renders with a file of values.
func objects(t *testing.T, name string) []any {
	t.Helper()
	documents, err := render(readValues(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var all []any
	for _, d := range documents {
		_, object, err := decode(d)
		if err != nil {
			t.Fatalf("%v\n%s", err, d)
		}
		all = append(all, object)
	}
	return all
}

// one returns the only object of its type.
func one[T any](t *testing.T, all []any) *T {
	t.Helper()
	var found []*T
	for _, o := range all {
		if o, ok := o.(*T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of the type %v, want 1", len(found), reflect.TypeFor[T]())
	}
	return found[0]
}

var files = []string{"least", "most", "shut"}

func TestChartIsLinted(t *testing.T) {
	for _, name := range files {
		for _, m := range lint.AllWithKubeVersion(chartDir, readValues(t, name), "shop", nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

func TestChartRendersWhatIsAskedFor(t *testing.T) {
	always := []string{"*v1.ConfigMap", "*v1.Deployment", "*v1.Service", "*v1.Service", "*v1.ServiceAccount"}
	for name, more := range map[string][]string{
		"least": {"*v1.PodDisruptionBudget"},
		"most":  {"*v1.PodDisruptionBudget", "*v2.HorizontalPodAutoscaler", "*v1.NetworkPolicy", "*v1.ServiceMonitor", "*v1.PrometheusRule"},
		"shut":  {"*v1.NetworkPolicy"},
	} {
		var got []string
		for _, o := range objects(t, name) {
			got = append(got, reflect.TypeOf(o).String())
		}
		want := slices.Sorted(slices.Values(append(more, always...)))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestPodIsShutIn: no root, nothing to write but the data, no privileges, no token of the cluster, and no variables
// that Kubernetes makes of a Service's name and Weir would take for settings.
func TestPodIsShutIn(t *testing.T) {
	for _, name := range files {
		pod := one[apps.Deployment](t, objects(t, name)).Spec.Template.Spec
		yes, no, id := true, false, int64(65532)
		wantPod := &core.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}}
		want := &core.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}}
		if !reflect.DeepEqual(pod.SecurityContext, wantPod) || !reflect.DeepEqual(pod.Containers[0].SecurityContext, want) {
			t.Errorf("%s: %+v, %+v", name, pod.SecurityContext, pod.Containers[0].SecurityContext)
		}
		if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks {
			t.Errorf("%s: the pod gets a token or variables of the cluster's", name)
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.ReadOnly != (m.Name != "data") {
				t.Errorf("%s: %s is read-only: %v", name, m.MountPath, m.ReadOnly)
			}
		}
	}
}

// TestProbes: a pod is not restarted for a Redis that is down.
func TestProbes(t *testing.T) {
	for _, name := range files {
		c := one[apps.Deployment](t, objects(t, name)).Spec.Template.Spec.Containers[0]
		live, ready := c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet
		if live.Path != "/livez" || ready.Path != "/readyz" || live.Port.StrVal != "admin" || ready.Port.StrVal != "admin" {
			t.Errorf("%s: %+v, %+v", name, live, ready)
		}
	}
}

// TestSelectorsFindThePod: whatever selects, selects the pods of the Deployment; whatever names a port, names one
// that they have.
func TestSelectorsFindThePod(t *testing.T) {
	for _, name := range files {
		all := objects(t, name)
		pod := one[apps.Deployment](t, all).Spec.Template
		var ports []string
		for _, p := range pod.Spec.Containers[0].Ports {
			ports = append(ports, p.Name)
		}
		for _, o := range all {
			selector, targets := selects(o)
			if selector != nil && !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s: %T selects %v, the pods are %v", name, o, selector, pod.Labels)
			}
			for _, target := range targets {
				if !slices.Contains(ports, target) {
					t.Errorf("%s: %T names the port %s, the pods have %v", name, o, target, ports)
				}
			}
		}
	}
}

// selects returns which pods and which of their ports an object is about.
func selects(object any) (pods map[string]string, ports []string) {
	switch o := object.(type) {
	case *apps.Deployment:
		return o.Spec.Selector.MatchLabels, nil
	case *policy.PodDisruptionBudget:
		return o.Spec.Selector.MatchLabels, nil
	case *networking.NetworkPolicy:
		for _, rule := range o.Spec.Ingress {
			for _, p := range rule.Ports {
				ports = append(ports, p.Port.StrVal)
			}
		}
		return o.Spec.PodSelector.MatchLabels, ports
	case *core.Service:
		for _, p := range o.Spec.Ports {
			ports = append(ports, p.TargetPort.StrVal)
		}
		return o.Spec.Selector, ports
	}
	return nil, nil
}

// TestMonitorFindsTheAdminService, and no other, and bears a token that can be read.
func TestMonitorFindsTheAdminService(t *testing.T) {
	all := objects(t, "most")
	monitor := one[monitoring.ServiceMonitor](t, all)
	var found []string
	for _, o := range all {
		if s, ok := o.(*core.Service); ok && labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
			found = append(found, s.Name+" "+s.Spec.Ports[0].Name)
		}
	}
	endpoint := monitor.Spec.Endpoints[0]
	if !slices.Equal(found, []string{"edge-weir-admin " + endpoint.Port}) {
		t.Errorf("the monitor finds %v", found)
	}
	if c := endpoint.Authorization.Credentials; c.Name != "weir" || c.Key != "read" {
		t.Errorf("the monitor bears %+v", c)
	}
}

// TestPolicyShutsOutWhoIsNotNamed: a rule of a NetworkPolicy without a from would let everybody in.
func TestPolicyShutsOutWhoIsNotNamed(t *testing.T) {
	for name, want := range map[string]int{"most": 2, "shut": 0} {
		p := one[networking.NetworkPolicy](t, objects(t, name))
		if len(p.Spec.Ingress) != want || !slices.Equal(p.Spec.PolicyTypes, []networking.PolicyType{"Ingress", "Egress"}) {
			t.Errorf("%s: %+v", name, p.Spec)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 {
				t.Errorf("%s: everybody may connect to %v", name, rule.Ports)
			}
		}
	}
}

// TestAlertsAreThoseThatAreTested: what the chart ships is what promtool judges.
func TestAlertsAreThoseThatAreTested(t *testing.T) {
	tested, err := os.ReadFile("../prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile(chartDir + "/files/alerts.yml")
	if err != nil || !bytes.Equal(shipped, tested) {
		t.Errorf("%v; copy prometheus/alerts.yml to helm/weir/files", err)
	}
	n := 0
	for _, group := range one[monitoring.PrometheusRule](t, objects(t, "most")).Spec.Groups {
		n += len(group.Rules)
	}
	if want := strings.Count(string(tested), "      - alert: ") + strings.Count(string(tested), "      - record: "); n != want {
		t.Errorf("%d rules are rendered, want %d", n, want)
	}
}

// TestRenderedConfigurationIsValid has Weir judge weir.yaml, with the Secret's files where the pod has them.
func TestRenderedConfigurationIsValid(t *testing.T) {
	weir := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-o", weir, "./cmd/weir")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for name, want := range map[string][]string{
		"least": {"listen: :8080", "replicas: 2"}, "most": {"replicas: 4", "/redis_password", "on_failure: deny", "max_keys: 2000000"}, "shut": {"replicas: 1"},
	} {
		all := objects(t, name)
		config, dir := one[core.ConfigMap](t, all).Data["weir.yaml"], t.TempDir()
		for _, v := range one[apps.Deployment](t, all).Spec.Template.Spec.Volumes {
			if v.Secret == nil {
				continue
			}
			for _, item := range v.Secret.Items {
				secret := []byte("a secret of thirty-two characters, " + item.Key)
				if err := os.WriteFile(filepath.Join(dir, item.Path), secret, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, text := range want {
			if !strings.Contains(config, text) {
				t.Errorf("%s: there is no %s in\n%s", name, text, config)
			}
		}
		check(t, weir, strings.ReplaceAll(config, "/etc/weir-secret", dir))
	}
}

func check(t *testing.T, weir, config string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(weir, "check", "--strict", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("weir check: %v\n%s%s", err, out, config)
	}
}

// TestSchemaRefuses: what would be ignored, overwritten, or written into a ConfigMap for all to read.
func TestSchemaRefuses(t *testing.T) {
	const least = "secret: {name: weir}\n"
	for what, values := range map[string]string{
		"a misspelled value":         least + "replica: 2",
		"no replicas":                least + "replicas: 0",
		"a digest that is none":      least + "image: {digest: latest}",
		"what the chart sets":        least + "config: {listen: ':80'}",
		"a token in the open":        least + "config: {admin_token: abc}",
		"a password in the open":     least + "config: {store: {redis: {url: 'redis://r', password: abc}}}",
		"no Secret":                  "config: {upstream: 'http://shop:3000'}",
		"no token":                   "secret: {name: weir, keys: {adminToken: ''}}",
		"a port that needs root":     least + "extraPorts: [{name: rls, port: 81}]",
		"a Service of unknown type":  least + "service: {type: External}",
		"a misspelled value, deeper": least + "networkPolicy: {enable: true}",
	} {
		if _, err := render(parseValues(t, values)); err == nil {
			t.Errorf("%s is rendered", what)
		}
	}
	if _, err := render(parseValues(t, least)); err != nil {
		t.Errorf("the least that is needed: %v", err)
	}
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"slices"
	"strings"
	"testing"
)

// ruleFor returns the row that applies to a package, or nil.
func ruleFor(name string) *rule {
	var found *rule
	for i := range rules {
		r := &rules[i]
		if matches(r.packages, name) && (found == nil || longer(r.packages, found.packages)) {
			found = r
		}
	}
	return found
}

// longer reports whether pattern a is more specific than b: it is longer, or it has the same length
// without dots.
func longer(a, b string) bool {
	pathA, pathB := strings.TrimSuffix(a, "/..."), strings.TrimSuffix(b, "/...")
	if len(pathA) != len(pathB) {
		return len(pathA) > len(pathB)
	}
	return len(a) < len(b)
}

// allowed returns the reason why a package may not import another, or "" if it may.
func allowed(r *rule, from, to string) string {
	if matchesAny(testHelpers, to) && !matchesAny(testHelpers, from) {
		return "it is for tests only"
	}
	if target := ruleFor(to); target != nil && target.leaf && !(showsOff(from) && !showsOff(to)) &&
		!strings.HasPrefix(to+"/", exampleOf(from)+"/") &&
		!(showsOff(from) && strings.HasPrefix(to, "examples/internal/")) {
		return "it is a leaf, which nothing imports"
	}
	// The compiler checks the imports of internal packages below the top level.
	internal := strings.Contains(to, "/internal/")
	if internal && !strings.Contains(strings.SplitN(to, "/", 2)[0], ".") {
		return ""
	}
	if matchesAny(everywhere, to) || matchesAny(r.may, to) {
		return ""
	}
	return "its row in rules_test.go does not list it"
}

// showsOff reports whether a package is part of an example. Examples may use all packages outside
// of the examples.
func showsOff(pkg string) bool { return strings.HasPrefix(pkg, "examples/") }

// exampleOf returns the folder of the example that from belongs to. The packages of one example may
// import each other. For other packages it returns "-", which is not a path.
func exampleOf(from string) string {
	if parts := strings.Split(from, "/"); parts[0] == "examples" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return "-"
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

func TestImports(t *testing.T) {
	standard := map[string]bool{}
	for _, p := range goList(t, "std") {
		standard[p.ImportPath] = true
	}
	for _, p := range goList(t, "./...") {
		from := name(p.ImportPath)
		r := ruleFor(from)
		if r == nil {
			t.Errorf("%s has no row in rules_test.go", from)
			continue
		}
		for _, path := range p.Imports {
			to := name(path)
			if standard[path] {
				if path == "testing" && !matchesAny(testHelpers, from) {
					t.Errorf("%s imports testing: only test helpers may", from)
				}
				continue
			}
			if reason := allowed(r, from, to); reason != "" {
				t.Errorf("%s imports %s: %s", from, to, reason)
			}
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if matchesAny(belowEach(nestedModules), name(path)) {
				t.Errorf("%s imports %s: it is part of a nested module", from, name(path))
			}
		}
	}
}

func belowEach(folders []string) []string {
	patterns := make([]string, len(folders))
	for i, folder := range folders {
		patterns[i] = folder + "/..."
	}
	return patterns
}

// TestRules checks that the tables reject the imports that they must reject.
func TestRules(t *testing.T) {
	tests := []struct {
		reason   string
		from, to string
		refused  bool
	}{
		{reason: "transports read and write the wire format", from: "cloudevents/mqtt", to: "codec"},
		{reason: "nothing imports upward", from: "codec", to: "cloudevents", refused: true},
		{reason: "nothing imports sideways", from: "cloudevents/memory", to: "cloudevents/mqtt", refused: true},
		{reason: "paho is for the MQTT transport", from: "cloudevents/mqtt", to: "github.com/eclipse/paho.golang/paho"},
		{reason: "and for no other", from: "cloudevents/work", to: "github.com/eclipse/paho.golang/paho", refused: true},
		{reason: "features stand alone", from: "appliedwork", to: "dynamicwatcher", refused: true},
		{reason: "nobody imports a leaf", from: "cloudevents/work", to: "cloudevents/work/boltstore", refused: true},
		{reason: "a leaf builds on its owner", from: "cloudevents/work/boltstore", to: "cloudevents/work"},
		{reason: "typed clients are heavy", from: "dynamicwatcher", to: "k8s.io/client-go/kubernetes", refused: true},
		{reason: "dynamicinformer links all of them", from: "dynamicwatcher", to: "k8s.io/client-go/dynamic/dynamicinformer",
			refused: true},
		{reason: "controller-runtime is for leaves", from: "appliedwork", to: "sigs.k8s.io/controller-runtime",
			refused: true},
		{reason: "and there it is allowed", from: "appliedwork/reconciler", to: "sigs.k8s.io/controller-runtime"},
		{reason: "logging is everywhere", from: "rsync/store", to: "k8s.io/klog/v2"},
		{reason: "connectors take a clientset, and know no transport", from: "rsync/connector/manifestwork",
			to: "cloudevents/work", refused: true},
		{reason: "test helpers stay in tests", from: "cloudevents/mqtt", to: "internal/testing/mosquitto", refused: true},
		{reason: "test helpers help each other", from: "internal/testing/mosquitto", to: "internal/testing/daemon"},
		{reason: "a package's own internals", from: "cloudevents/work", to: "cloudevents/work/internal/cache"},
		{reason: "an example's parts", from: "examples/quickstart", to: "examples/quickstart/internal/agent"},
		{reason: "examples are for reading", from: "examples/quickstart", to: "examples/other", refused: true},
		{reason: "examples share a little", from: "examples/quickstart/internal/setup", to: "examples/internal/command"},
		{reason: "nobody else does", from: "cloudevents/work", to: "examples/internal/command", refused: true},
		{reason: "examples use everything", from: "examples/quickstart", to: "cloudevents/mqtt"},
		{reason: "leaves too", from: "examples/quickstart", to: "dynamicwatcher/source"},
	}
	for _, test := range tests {
		t.Run(test.from+" to "+test.to, func(t *testing.T) {
			r := ruleFor(test.from)
			if r == nil {
				t.Fatalf("no row for %s", test.from)
			}
			if got := allowed(r, test.from, test.to); (got != "") != test.refused {
				t.Errorf("%q, want refused = %v: %s", got, test.refused, test.reason)
			}
		})
	}
}

// TestRoomsAreLayered checks that imports between the rooms of a package go one way.
func TestRoomsAreLayered(t *testing.T) {
	for folder, levels := range rooms {
		level := map[string]int{}
		for i, names := range levels {
			for _, room := range names {
				level[folder+"/"+room] = i + 1
			}
		}
		for _, p := range goList(t, "./"+folder+"/...") {
			from := name(p.ImportPath)
			if level[from] == 0 {
				t.Errorf("%s has no level in rooms", from)
			}
			for _, path := range p.Imports {
				if to := name(path); strings.HasPrefix(to, folder+"/") && level[to] >= level[from] {
					t.Errorf("%s imports %s, which is not below it", from, to)
				}
			}
		}
	}
}

// TestYAMLParsers checks that documents of users and peers are read by a decoder with limits.
func TestYAMLParsers(t *testing.T) {
	parses := map[string]bool{}
	for _, p := range goList(t, "./...") {
		from := name(p.ImportPath)
		for _, to := range p.Imports {
			if matchesAny(yamlParsers, to) {
				parses[from] = true
			}
		}
		if parses[from] && mayParseYAML[from] == "" && !matchesAny(testHelpers, from) {
			t.Errorf("%s imports a YAML parser: use internal/yamldoc", from)
		}
	}
	for from := range mayParseYAML {
		if !parses[from] {
			t.Errorf("%s imports no YAML parser: remove it from mayParseYAML", from)
		}
	}
}

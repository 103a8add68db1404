// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package yamldoc_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// wide returns a document of about 2 * bytes that expands to bytes * bytes / 3.
func wide(bytes int) string {
	return "a: &a " + strings.Repeat("x", bytes) + "\nb: [" + strings.Repeat("*a,", bytes/3) + "]\n"
}

// doubling returns a document with a size that doubles n times.
func doubling(n int) string {
	var out strings.Builder
	fmt.Fprintln(&out, "a0: &a0 [xxxxxxxxxxxxxxxx]")
	for i := range n {
		fmt.Fprintf(&out, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return out.String()
}

// TestLimits checks that a hostile document is rejected before it uses memory.
func TestLimits(t *testing.T) {
	var deep strings.Builder
	fmt.Fprintln(&deep, "a0: &a0 x")
	for i := range 51 {
		fmt.Fprintf(&deep, "a%d: &a%d %s*a%d%s\n", i+1, i+1, strings.Repeat("[", 200), i, strings.Repeat("]", 200))
	}
	key := "? &k " + strings.Repeat("k", 1000) + "\n: 1\n"
	for _, tt := range []struct{ name, text, problem string }{
		{"a large value", wide(85_000), "more than 3145728 bytes with its aliases replaced"},
		{"values that double", doubling(30), "more than 3145728 bytes"},
		{"merge keys", "a: &a {v: " + strings.Repeat("x", 10_000) + "}\nb:\n" + strings.Repeat("- {<<: *a}\n", 1000),
			"more than 3145728 bytes"},
		{"keys", key + strings.Repeat("? *k\n: 1\n", 10_000), "more than 3145728 bytes"},
		{"a list as a key", "a: &a " + strings.Repeat("x", 10_000) + "\n? [" + strings.Repeat("*a,", 1000) + "]\n: 1\n",
			"more than 3145728 bytes"},
		{"levels of aliases", deep.String(), "more than 10000 levels"},
		{"levels", strings.Repeat("- ", 5001) + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			"more than 10000 levels"},
		{"bytes", strings.Repeat("#", yamldoc.MaxBytes+1), "has 1572865 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, read := range map[string]func([]byte) ([]byte, error){"JSON": yamldoc.JSON,
				"StrictJSON": yamldoc.StrictJSON} {
				allocated, _, err := cost(func() error { _, err := read([]byte(tt.text)); return err })
				if !errors.As(err, new(*yamldoc.LimitError)) || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("%s: %v, want %s", how, err, tt.problem)
				}
				if allocated > 32<<20 {
					t.Errorf("%s: allocated %d MiB for %d bytes", how, allocated>>20, len(tt.text))
				}
			}
		})
	}
}

// cost returns the bytes that a call allocates, its duration and its error.
func cost(f func() error) (uint64, time.Duration, error) {
	var err error
	bytes, took := alloctest.Cost(func() { err = f() })
	return bytes, took, err
}

// TestAliases checks that ordinary documents are converted as kubectl converts them.
func TestAliases(t *testing.T) {
	for text, want := range map[string]string{
		"a: &a {x: 1}\nb: *a\nc: {<<: *a, z: 2}":     `{"a":{"x":1},"b":{"x":1},"c":{"x":1,"z":2}}`,
		"a: '&&'\nb: '*'":                            `{"a":"\u0026\u0026","b":"*"}`,
		"a: 1\na: 2":                                 `{"a":2}`,
		`{"a": "*&", "b": [1.50, 9007199254740993]}`: `{"a":"*\u0026","b":[1.5,9007199254740993]}`,
		"# nothing":                                  "null",
	} {
		got, err := yamldoc.JSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := yamldoc.StrictJSON([]byte("a: 1\na: 2")); err == nil || !strings.Contains(err.Error(), "already set") {
		t.Errorf("a repeated key: %v", err)
	}
}

// TestManyParts checks that a document of many small parts is rejected immediately, for each kind
// of part. Documents as large as real ones are accepted.
func TestManyParts(t *testing.T) {
	fill := func(part string, size int) string { return strings.Repeat(part, size/len(part)) }
	const size = yamldoc.MaxBytes - 10
	for name, text := range map[string]string{
		"objects": "[" + fill("{},", size) + "]", "members": "[" + fill("{a},", size) + "]",
		"pairs": "[" + fill("a: ,", size) + "]", "keys": "[" + fill("? ,", size) + "]",
		"tight pairs": "[" + fill(`"":a,`, size) + "]", "pairs without keys": "[" + fill(":a,", size) + "]",
		"pairs of anchors": "[" + fill("&a:a,", size) + "]", "pairs of objects": "[" + fill("{}:a,", size) + "]",
		"objects in items": fill("- a:\n", size), "complex keys": fill("? \n", size),
		"tabs": fill("-\ta:\n", size), "lines of Unicode": fill("- a:\u2028\n", size),
		"levels": fill("a:\n b:\n  c:\n", size),
		"alias":  "a: &a [" + fill("{},", 3000) + "]\nb: [" + fill("*a,", 3000) + "]\n",
		"wide":   "a: &a {a: b}\nb: &b [" + fill("*a,", 300) + "]\nc: [" + fill("*b,", 6000) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			allocated, _, err := cost(func() error { _, err := yamldoc.JSON([]byte(text)); return err })
			if !errors.As(err, new(*yamldoc.LimitError)) || !strings.Contains(err.Error(), "so many small parts") {
				t.Errorf("got %v", err)
			}
			if allocated > 32<<20 {
				t.Errorf("allocated %d MiB", allocated>>20)
			}
		})
	}
	block := func(line string) string { return "a: |\n" + fill("  "+line+"\n", size-10) }
	for name, text := range map[string]string{
		"a list of addresses": "a:\n" + fill("- 2001:db8:1234:5678:9abc:def0:1:2/128\n", size),
		"a table":             block("1234,5678,9012,3456,7890,1234,5678,9012,3456,7890"),
		"a log":               block("2026-01-02T15:04:05Z [info] GET http://10.0.0.1:8080/?a=b {code: 200, took: 1ms}"),
		"JSON": block(
			`{"title": "Requests by code", "type": "graph", "gridPos": {"h": 8, "w": 12}, "targets": [{"expr": "sum(rate(requests[5m]))"}]}`)[:900_000],
		"a definition": "a:\n" +
			fill("- properties:\n    replicas:\n      description: The number of replicas.\n      type: integer\n", size),
		"a long string": "a: " + fill("x", size),
	} {
		if n := yamldoc.Memory([]byte(text)); n > yamldoc.MaxMemory {
			t.Errorf("%s: about %d MiB", name, n>>20)
		}
	}
}

// TestLargeDocumentsTakeTurns checks that documents that need much memory wait for each other.
// Small documents do not wait for them.
func TestLargeDocumentsTakeTurns(t *testing.T) {
	large := yamldoc.Document{Text: []byte("a: '" + strings.Repeat(",", 400_000) + "'")} // counts as 61 MiB
	small := yamldoc.Document{Text: []byte("a: x")}
	var all sync.WaitGroup
	var using, most atomic.Int32
	for range 8 {
		all.Go(func() {
			large.UseStrictJSON(func(text []byte, err error) {
				n := using.Add(1)
				for now := most.Load(); n > now && !most.CompareAndSwap(now, n); now = most.Load() {
				}
				if err != nil || len(text) < 100_000 {
					t.Errorf("%d bytes, %v", len(text), err)
				}
				small.UseStrictJSON(func(text []byte, err error) {
					if err != nil || string(text) != `{"a":"x"}` {
						t.Errorf("%s, %v", text, err)
					}
				})
				time.Sleep(10 * time.Millisecond)
				using.Add(-1)
			})
		})
	}
	all.Wait()
	if n := most.Load(); n > 1 {
		t.Errorf("%d documents at the same time", n)
	}
}

// TestFileLimit checks that documents of one file have a common limit, in addition to the limit of
// each document.
func TestFileLimit(t *testing.T) {
	total := 0
	for d, err := range yamldoc.Split([]byte(strings.Repeat(wide(3000)+"---\n", 20))) {
		var out []byte
		if err == nil {
			out, err = d.JSON()
		}
		if total += len(out); err != nil {
			if !errors.As(err, new(*yamldoc.LimitError)) {
				t.Error(err)
			}
			break
		}
	}
	if total > yamldoc.MaxExpanded {
		t.Errorf("20 documents of 6 kB become %d bytes", total)
	}
}

// TestErrorsQuoteNoValue checks that an error about a document with a password does not contain the
// password.
func TestErrorsQuoteNoValue(t *testing.T) {
	for _, text := range []string{
		"password: *s3cr3t", "a: &a 1\npassword: *s3cr3t", "password: !!int s3cr3t", "password: !!int s3`cr3t",
		"? {password: s3cr3t}\n: 1",
		"? &a {password: s3cr3t}\n: *a", "null: s3cr3t", "a: &s3cr3t [*s3cr3t]", "password: !s3cr3t!x y", "{password: s3cr3t",
		"password: \"s3cr3t", "a: b: s3cr3t",
		"password: !!float s3cr3t", "a: !!binary s3cr3t!",
	} {
		for _, read := range []func([]byte) ([]byte, error){yamldoc.JSON, yamldoc.StrictJSON} {
			if _, err := read([]byte(text)); err == nil || strings.Contains(err.Error(), "cr3t") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	_, err := yamldoc.StrictJSON([]byte(strings.Repeat("key:\n", 10_000)))
	if err == nil || len(err.Error()) > 1100 {
		t.Errorf("10,000 repeated keys: %.100v", err)
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   nil,
		"# a\n---\n\n--- # b\n...\n":         nil,
		"\ufeffa: 1":                         {"1 1 a: 1"},
		"# c\na: 1\n---\n\n# d\nb: 2\n":      {"1 2 # c\na: 1\n", "4 6 \n# d\nb: 2\n"},
		"a: 1\n--- {b: 2}\n...\nc: 3":        {"1 1 a: 1\n", "2 2 --- {b: 2}\n", "4 4 c: 3"},
		"%YAML 1.1\n---\na: ---\nb: --- c\n": {"3 3 a: ---\nb: --- c\n"},
		"a: |\n  x\n  ---\n  y\n":            {"1 1 a: |\n  x\n  ---\n  y\n"},
		"a: 1\r\n---\r\nb: 2\r\n":            {"1 1 a: 1\r\n", "3 3 b: 2\r\n"},
		" {\"a\": 1}\n\n{\"b\":\n2} {}":      {"1 1 {\"a\": 1}", "3 3 {\"b\":\n2}", "4 4 {}"},
		"{\"a\": 1}\n---\nb: 2\n":            {"1 1 {\"a\": 1}", "3 3 b: 2\n"},
		"{\"a\": 1} # c\n":                   {"1 1 {\"a\": 1}"},
		"{a: 1}\n---\n{b: 2}":                {"1 1 {a: 1}\n", "3 3 {b: 2}"},
	} {
		var got []string
		for d, err := range yamldoc.Split([]byte(text)) {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			got = append(got, fmt.Sprint(d.Start, " ", d.Line, " ", string(d.Text)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	n := 0
	var last error
	for _, err := range yamldoc.Split([]byte(strings.Repeat("a\n---\n", yamldoc.MaxDocuments+10))) {
		n, last = n+1, err
	}
	if n != yamldoc.MaxDocuments+1 || !errors.As(last, new(*yamldoc.LimitError)) {
		t.Errorf("%d documents, %v", n, last)
	}
}

// FuzzDocuments checks that no file needs more memory or time than its size permits, and that
// documents are read as kubectl reads them.
func FuzzDocuments(f *testing.F) {
	for _, text := range []string{
		wide(3000), doubling(8), "a: &a {x: 1}\nb: {<<: [*a, *a]}\n---\n? [*a]\n: 1\n--- !!map\n...\n",
		"a: |\n  &a\n  *a\n# &a *a\nb: >-\n &b\n \"*c\"",
		`{"a": ["*", "&"]}{"b": 1e400}`, "? &a [a]\n: *a\n", "%TAG ! tag:x,2000:\n---\na: !b &c\n- *c", "&a *a : 1",
		"- - - - ? - : - &a\n- *a", "[[[[{{{{", "\t&a\n*a", "a: &a\n  b: &b *a",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 8192 {
			return
		}
		for d, err := range yamldoc.Split(text) {
			if err != nil {
				t.Fatal(err)
			}
			var out []byte
			for _, read := range []func([]byte) ([]byte, error){yamldoc.JSON, yamldoc.StrictJSON} {
				allocated, took, err := cost(func() (err error) { out, err = read(d.Text); return err })
				if allocated > uint64(3*yamldoc.Memory(d.Text)+1<<20) || took > 10*time.Second || len(out) > 8*yamldoc.MaxExpanded {
					t.Fatalf("%d bytes: allocated %d MiB in %s, and became %d bytes", len(d.Text), allocated>>20, took, len(out))
				}
				if err != nil && len(err.Error()) > 1100 {
					t.Fatalf("%d bytes: the error has %d", len(d.Text), len(err.Error()))
				}
			}
			if out == nil {
				continue // kubectl might use all memory
			}
			if want, err := yaml.YAMLToJSONStrict(d.Text); err != nil || string(out) != string(want) {
				t.Fatalf("%q: %s, want %s, %v", d.Text, out, want, err)
			}
		}
	})
}

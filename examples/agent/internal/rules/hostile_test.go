// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/examples/agent/internal/rules"
	"github.com/spokewire/sdk-go/internal/testing/hostiletest"
)

// TestHostileExpressions checks that no expression runs for long or allocates much memory.
func TestHostileExpressions(t *testing.T) {
	e, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	obj := object(t, bare)
	obj.Object["x"] = strings.Repeat("a", 100_000)
	double := func(start, f string, times int) string {
		return fmt.Sprintf("[%s]%s.all(x, %s)", start, strings.Repeat(".map(x, x + x)", times), f)
	}
	square := func(f string) string {
		return "[lists.range(1000)].map(a, a.map(i, a)).map(b, b.map(i, b)).all(c, " + f + ")"
	}
	obj.Object["m"], obj.Object["n"] = strings.Repeat("a", 1<<20), strings.Repeat("1", 1<<20)
	loop := func(of, body, operator string) string {
		return "lists.range(90).all(i, [object." + of + "].all(x, " + strings.Repeat(body+operator, 250) + "false))"
	}
	for name, expression := range map[string]string{
		"sizes":               loop("m", "x.size() > 0", " && "),
		"bytes in a list":     "[object.m].all(x, [" + strings.Repeat("bytes(x), ", 900) + "bytes(x)].size() == 0)",
		"bytes":               loop("m", "bytes(x) == b''", " || "),
		"int":                 loop("n", "int(x) == 1", " || "),
		"double":              loop("n", "double(x) == 1.0", " || "),
		"bool":                loop("n", "bool(x)", " || "),
		"keys":                loop("m", "has(object[x].a)", " || "),
		"prefixes":            loop("m", "!x.startsWith(x)", " || "),
		"wide list":           "[" + strings.Repeat("[],", 5000) + "[]] == []",
		"wide map":            "{" + strings.Repeat("1:{},", 3000) + "1:{}} == {}",
		"wide dyn":            strings.Repeat("dyn(1) == dyn('') || ", 700) + "false",
		"matches":             `object.x.matches("((((a?){10}){10}){10}){1}((((a?){10}){10}){10}){1}b$")`,
		"matches at run time": `object.x.matches(["(a?){1000}", "b$"].map(r, r + r).join())`,
		"large program":       `"a".matches("(` + strings.Repeat("ab", 1500) + `){1000}")`,
		"many matches":        `lists.range(10000).exists(i, object.x.matches("(a?){20}b$"))`,
		"double a list":       double("[1]", "x == x && x.size() == 0", 40),
		"double and sort":     double("[1]", "x.sort().size() == 0", 30),
		"double and in":       double("[1]", "2 in x", 30),
		"double and reverse":  double("[1]", "x.reverse().size() == 0", 30),
		"double and greatest": double("[1]", "math.greatest(x) == 0", 28),
		"double a text":       double("'aaaaaaaaaa'", "x == ''", 40),
		"equal squares":       square("c == c && false"),
		"not equal squares":   square("c != c"),
		"in squares":          square("c in [c, c, c] && false"),
		"distinct squares":    square("[c, c, c].distinct() == []"),
		"contains squares":    square("!sets.contains([c, c], [c, c])"),
		"long literals":       "lists.range(60000).map(i, [i," + strings.Repeat("0,", 7000) + "0]).size() == 0",
		"long map literals":   "lists.range(60000).map(i, {i: 0," + longMap(1500) + "}).size() == 0",
		"range":               "lists.range(1000000).size() == 0 || lists.range(900000).map(i, lists.range(900000)).size() == 0",
		"split":               "lists.range(100).map(i, object.x.split('')).size() == 0",
		"quote":               double("'\"\"\"\"\"\"\"\"'", "strings.quote(x) == ''", 25),
		"reverse a text":      double("'aaaaaaaaaa'", "x.reverse() == ''", 25),
		"nested macros":       strings.Repeat("[1].all(x, ", 200) + "true" + strings.Repeat(")", 200) + " && false",
		"nested parentheses":  strings.Repeat("(", 240) + "1" + strings.Repeat(")", 240) + " == 2",
		"nested lists":        strings.Repeat("[", 240) + "1" + strings.Repeat("]", 240) + " == []",
		"nested ternaries":    strings.Repeat("(true ? ", 200) + "false" + strings.Repeat(" : true)", 200),
		"many errors":         strings.Repeat("a.b+", 4000) + "c",
		"garbage":             strings.Repeat("$", 16000),
		"garbage in lines":    strings.Repeat("$\n", 8000),
		"unwrapped lists": "[lists.range(20000).map(i, optional.of(i))].all(l, lists.range(20000).map(i, " +
			"optional.unwrap(l)).size() == 0)",
		"optional macros": "object.?x" + strings.Repeat(".optMap(v, v)", 60) + ".hasValue() == false",
		"time zones": "lists.range(10000).exists(i, " +
			"timestamp('2026-01-01T00:00:00Z').getHours('America/New_York') == 25)",
	} {
		t.Run(name, func(t *testing.T) {
			var message string
			hostiletest.Check(t, func() {
				c := e.Evaluate(t.Context(), cel(expression), obj)
				message = string(c.Status) + " " + c.Message
			})
			if t.Logf("%.200s", message); !strings.HasPrefix(message, "False") {
				t.Errorf("%.200s", message)
			}
		})
	}
}

func longMap(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "-%d:0,", i+1)
	}
	return strings.TrimSuffix(s.String(), ",")
}

// TestCompiledBytes checks that the memory of compiled expressions is bounded.
func TestCompiledBytes(t *testing.T) {
	e, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	obj := object(t, bare)
	for name, text := range map[string]string{
		"calls":   strings.Repeat("[1].all(x,x>0)||", 800) + "%d == 0",
		"garbage": strings.Repeat("$", 16000) + "%d",
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			for i := range 24 {
				e.Evaluate(t.Context(), cel(fmt.Sprintf(text, i)), obj)
			}
			got := int64(heap()) - int64(before)
			t.Logf("24 expressions: %d KiB", got>>10)
			if got > 18<<20 {
				t.Errorf("24 compiled expressions have %d MiB", got>>20)
			}
		})
	}
	runtime.KeepAlive(e)
}

// FuzzCEL evaluates expressions on an object with long texts, long lists and many levels.
func FuzzCEL(f *testing.F) {
	for _, seed := range []string{
		"", "object.x.matches('(a?){100}b$')", "object.l.sort() == object.l",
		"[object.l].map(x, x + x).map(x, x + x).all(x, x == x)", "lists.range(1000).map(i, [i, {i: i}]).size() > 0",
		"object.?deep.?a.orValue(1) == 1", "object.x.replace('a', object.x) != ''",
		"object.x.split('').join('b').reverse() == ''", "'%s %d'.format([object, 1]) == ''",
		"object.l.distinct().flatten().slice(1, 2).size() == 1", "sets.intersects(object.l, object.l)",
		"math.greatest([1, 2]) == 2", "optional.of(object).optMap(x, x.l).hasValue()",
		"object.l.sortBy(x, x).exists(x, x.indexOf('m') > 0 || x.charAt(0) == 'i')",
		"timestamp('2026-01-01T00:00:00Z').getHours('Asia/Tokyo') > 1", "object.deep == object.deep",
		"{'a': 1}.map(k, k).exists(k, k in object)", "strings.quote(object.x).upperAscii().substring(1).trim() == ''",
		"has(object.x) ? object.x < 'b' : 1 / 0 == 1",
	} {
		f.Add(seed)
	}
	e, err := rules.New()
	if err != nil {
		f.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X",
		"metadata": map[string]any{"name": "x"}}}
	list, deep := []any{}, map[string]any{}
	for i := range 2000 {
		list = append(list, fmt.Sprint("item", i))
	}
	for range 500 {
		deep = map[string]any{"a": deep}
	}
	obj.Object["x"], obj.Object["l"], obj.Object["deep"] = strings.Repeat("a", 100_000), list, deep
	f.Fuzz(func(t *testing.T, expression string) {
		rule := says(cel(expression), "", expression)
		hostiletest.Check(t, func() { e.Evaluate(t.Context(), rule, obj) })
	})
}

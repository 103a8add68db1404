// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package celbound_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/bound"
	"github.com/spokewire/sdk-go/internal/celbound"
)

func environment(t *testing.T, own ...celbound.Function) *celbound.Env {
	t.Helper()
	env, err := celbound.New(own, celbound.Macros(), cel.Variable("x", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func eval(ctx context.Context, env *celbound.Env, text string) (ref.Val, error) {
	many := map[string]any{}
	for i := range 5_000 {
		many[strconv.Itoa(i)] = true
	}
	return evalWith(ctx, env, text, map[string]any{"a": int64(1), "many": many})
}

func evalWith(ctx context.Context, env *celbound.Env, text string, x map[string]any) (ref.Val, error) {
	p, _, err := env.Compile(text)
	if err != nil {
		return nil, err
	}
	return p.Eval(ctx, &bound.Steps{}, map[string]any{"x": x})
}

// TestEveryFunctionIsBounded fails for new functions in a version of cel-go, so they are reviewed
// before use.
func TestEveryFunctionIsBounded(t *testing.T) {
	// These functions take constant time, or read a text once, which takes steps too. CEL counts
	// their cost and limits their results.
	const known = `!_ -_ @not_strictly_false _%_ _&&_ _*_ _-_ _/_ _<=_ _<_ _>=_ _>_ _?._ _?_:_ _[?_] _[_] __not_strictly_false__ _in_ _||_
		bool bytes contains double duration dyn endsWith first getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds
		getMinutes getMonth getSeconds hasValue in int last math.abs math.bitAnd math.bitNot math.bitOr math.bitShiftLeft
		math.bitShiftRight math.bitXor math.ceil math.floor math.isFinite math.isInf math.isNaN math.round math.sign math.sqrt math.trunc
		optional.none optional.of optional.ofNonZeroValue or orValue size startsWith string timestamp type uint value`
	if diff := cmp.Diff(strings.Fields(known), environment(t).Unbounded()); diff != "" {
		t.Error(diff)
	}
}

func TestBind(t *testing.T) {
	env := environment(t)
	for _, text := range []string{
		"cel.bind(a, 2, a * a) == 4",
		"cel.bind(a, [], (a + [1]).size() == 1 && a.size() == 0)", // a bound list does not change
		"cel.bind(a, {}, {'b': 1}.transformMap(k, v, v + 1) == {'b': 2} && a.size() == 0)",
		"cel.bind(a, cel.bind(b, 3, b + 1), cel.bind(c, a, c + a)) == 8",
		"[1, 2].map(i, cel.bind(j, i * 10, j + i)) == [11, 22]",
	} {
		if got, err := eval(t.Context(), env, text); err != nil || got != types.True {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"cel.bind(1, 2, 3)":      "the first argument of cel.bind must be a name",
		"cel.bind(a, 1, b)":      `unknown variable "b"`,
		"x.bind(a, 1, a)":        "wrong arguments of bind",
		"cel.bind(a, 1, a + '')": "+ does not take an int and a string",
	} {
		if _, err := eval(t.Context(), env, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPlaces checks that errors have the line and the column in the expression.
func TestPlaces(t *testing.T) {
	many := "[" + strings.Repeat("1,", 2_000) + "1]"
	own := celbound.Function{
		Name: "fail", Overloads: []cel.FunctionOpt{cel.Overload("fail", nil, cel.DynType)},
		Call: func(steps *bound.Steps, _ []ref.Val) ref.Val { return types.WrapErr(steps.Take("fail", bound.Most+1)) },
	}
	for _, tt := range []struct {
		text         string
		line, column int
		problem      string
	}{
		{"true &&\n  y", 2, 3, `unknown variable "y": the variable is x`},
		{"1 +", 1, 3, "unexpected end of the expression"},
		{"1 + ''", 1, 3, "+ does not take an int and a string: convert one of them"},
		{"x.a == 1 &&\n x.b == 2", 2, 3, "no such key: b: write ?b for a field that may be missing"},
		{"x.a +\n  ''", 1, 5, "+ does not take an int and a string"},
		{"1 / (x.a - 1)", 1, 3, "division by zero"},
		{"[fail()]", 1, 6, "fail would take more than 1,000,000 steps: make it simpler"},
		{many, 0, 0, "the expression has 2002 parts, at most 2000: shorten it"},
		{strings.Repeat("1+", 2_000) + "1", 0, 0, "max recursion depth exceeded"},
		{strings.Repeat(" ", celbound.MaxBytes) + "1", 0, 0, "the expression has 16385 bytes, at most 16384: shorten it"},
	} {
		_, err := eval(t.Context(), environment(t, own), tt.text)
		var problem *celbound.Error
		if !errors.As(err, &problem) || problem.Line != tt.line || problem.Column != tt.column ||
			!strings.HasPrefix(problem.Problem, tt.problem) {
			t.Errorf("%.40s: %d:%d %v, want %d:%d %s", tt.text, problem.Line, problem.Column, err, tt.line, tt.column,
				tt.problem)
		}
	}
}

// TestContext checks that an evaluation ends with its context.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := eval(ctx, environment(t), "lists.range(10).all(i, i >= 0)"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestMapsTakeSteps checks that the entries that a macro adds to a map take steps.
func TestMapsTakeSteps(t *testing.T) {
	const text = "lists.range(30).transformList(i, v, [1].transformMapEntry(j, w, x.many)).size() == 30"
	if _, err := eval(t.Context(), environment(t), text); err == nil ||
		!strings.Contains(err.Error(), "the expression takes more than 4,000,000 steps") {
		t.Error(err)
	}
}

// TestMessages checks that errors are readable and quote no values of variables.
func TestMessages(t *testing.T) {
	own := celbound.Function{
		Name: "both", Overloads: []cel.FunctionOpt{
			cel.Overload("both_1", []*cel.Type{cel.DynType, cel.IntType}, cel.DynType),
			cel.MemberOverload("both_2", []*cel.Type{cel.ListType(cel.DynType)}, cel.DynType),
		},
		Call: func(*bound.Steps, []ref.Val) ref.Val { return types.NewErr("its own 123 \"words\"") },
	}
	env := environment(t, own)
	for text, want := range map[string]string{
		"x.a = 1":                   `1:5: syntax error at "= ": write == to compare`,
		"true & false":              `1:6: syntax error at "& ": write &&`,
		"'abc":                      `1:1: syntax error at "'abc"`,
		"(1 == 1 \n\n":              "1:7: missing ) at the end of the expression",
		"'é' == (\n  1 \n ":         "2:3: missing ) at the end of the expression",
		"[1, 2":                     "1:5: unexpected end of the expression",
		"true and false":            `1:6: unexpected "and": write &&`,
		"x.a == 1 or true":          `1:10: unexpected "or": write ||`,
		"x.":                        `1:3: syntax error at "."`,
		"y == 1":                    `1:1: unknown variable "y": the variable is x`,
		"[1].any(c, c > 0)":         `1:8: unknown function "any"`,
		"ready(x)":                  `1:6: unknown function "ready"`,
		"math.no(1)":                `1:8: unknown function "no"`,
		"[1].exists(c)":             `1:11: wrong arguments of exists`,
		"math.greatest(y)":          `unknown variable "y"`,
		"both(x)":                   "1:5: got both(any): write both(any, int) or list.both()",
		"'a'.both()":                "1:9: got string.both(): write both(any, int) or list.both()",
		"both({'a': [1]}, {}, 'x')": "got both(object, object, string): write both(any, int) or list.both()",
		"string({})":                "got string(object): the function does not take these types",
		"{} == 'a'":                 "1:4: an object cannot equal a string: compare a field of the object",
		"x.?a == 'a'":               "an optional cannot equal a string: write orValue(default)",
		"1 == 'a'":                  "an int cannot equal a string",
		"x.?a + 1":                  "+ does not take an optional and an int: write orValue(default)",
		"x.a ? 1 : 'two'":           "both results of ?: must have one type, got an int and a string",
		"'' ? 1 : 2":                "the condition of ?: must be a bool, got a string",
		"!1":                        "! does not take an int",
		"has(x)":                    "has takes a field, for example has(object.spec)",
		"'a'.b":                     "a string has no fields",
		"'a'.all(c, true)":          "a string is no list or object",
		"x.b":                       "1:2: no such key: b: write ?b for a field that may be missing",
		"x['b c']":                  "no such key: b c",
		"x[string(x.n)]":            "no such key",
		"x.s > 1": "1:5: > does not take a string and an int: convert one of them, for example with " +
			"int or string",
		"size(x.n)":                    "size does not take an int",
		"x.n && true":                  "an operand has the wrong type: &&, ||, ! and ?: take a bool",
		"[1][x.n]":                     "index out of bounds: …",
		"[1][77]":                      "index out of bounds: 77",
		"[1][x.s]":                     "the index of a list must be an int, got a string",
		"[1][x.d]":                     "the index of a list must be an int, got a double",
		"int(x.s)":                     "a string cannot be converted to an int",
		"timestamp(x.s)":               "a string cannot be converted to a timestamp",
		"'a'.matches(x.s + '(')":       "invalid regular expression: missing closing )",
		"'a'.matches('b' + x.p)":       "invalid regular expression: ",
		"[x.s, x.n].join()":            "join takes a list of strings",
		"[?x.s]":                       "the value after ? must be an optional: write object.?field",
		"optional.none().value() == 1": "the optional has no value: write orValue(default)",
		"lists.range(x.m - 5)":         "lists.range: size must be non-negative, got …",
		"x.s.substring(0, x.n)":        "index out of range: …",
		"both(1, 1)":                   `its own 123 "words"`,
		"lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))": "the expression takes more than 4,000,000 steps",
	} {
		_, err := evalWith(t.Context(), env, text, map[string]any{
			"a": int64(1), "s": "s3cr3t", "n": int64(98765432), "d": 98765.432, "m": int64(-98760), "p": "s3cr3t)",
		})
		var problem *celbound.Error
		if !errors.As(err, &problem) {
			t.Errorf("%s: %v is no Error", text, err)
			continue
		}
		got := strconv.Itoa(problem.Line) + ":" + strconv.Itoa(problem.Column) + ": " + problem.Problem
		if !strings.Contains(got, want) || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "98765") {
			t.Errorf("%s:\n%s, want\n%s", text, got, want)
		}
	}
}

// TestMacrosThatRepeatTheirTarget checks that a macro expands its target only once. Parts are then
// counted before they are too many.
func TestMacrosThatRepeatTheirTarget(t *testing.T) {
	env := environment(t)
	for _, link := range []string{
		".optMap(x, x)", ".optFlatMap(x, optional.of(x))", ".orValue(1)", ".map(x, x)", ".sortBy(x, x)", ".exists(x, x)",
		".transformList(i, x, x)", ".transformMapEntry(i, x, {i: x})", ".existsOne(i, x, x)", ".filter(x, x)",
	} {
		compile := func(n int) (nodes int) {
			_, nodes, _ = env.Compile("x.?a" + strings.Repeat(link, n))
			return nodes
		}
		one, two, nine := compile(1), compile(2), compile(9)
		if nine > one+8*(two-one) {
			t.Errorf("%s: 9 of them have %d parts, one has %d and two have %d", link, nine, one, two)
		}
	}
	for text, want := range map[string]ref.Val{
		"x.?a.optMap(y, y + 1).orValue(0)":                            types.Int(2),
		"x.?b.optMap(y, y + 1).orValue(0)":                            types.Int(0),
		"x.?a.optMap(y, []).orValue([1]).size()":                      types.Int(0),
		"x.?a.optMap(y, x.?a.optMap(z, y + z).value()).value()":       types.Int(2),
		"x.?a.optFlatMap(y, y > 0 ? x.?b : x.?a).hasValue()":          types.False,
		"x.?a.optMap(y, optional.of(y)).value().value()":              types.Int(1),
		"x.?a.optFlatMap(y, optional.of(y + 1)).optMap(y, y).value()": types.Int(2),
	} {
		if got, err := eval(t.Context(), env, text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	if _, _, err := env.Compile("x.?a.optMap(1, 2)"); err == nil || !strings.Contains(err.Error(), "must be a name") {
		t.Error(err)
	}
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package celbound

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"

	"github.com/spokewire/sdk-go/internal/bound"
)

// ownError is an error of this package or of a caller's function. Its text is not translated.
type ownError struct{ error }

// Unwrap returns the error.
func (e ownError) Unwrap() error { return e.error }

func own(v ref.Val) ref.Val {
	if err, ok := v.(*types.Err); ok {
		return types.WrapErr(ownError{err})
	}
	return v
}

// message maps a message of cel-go to a text in plain words.
type message struct {
	pattern *regexp.Regexp
	words   func(groups []string) string // groups of the pattern, without the whole match
}

func translation(pattern string, words func(groups []string) string) message {
	return message{regexp.MustCompile("(?s)^" + pattern + "$"), words}
}

func fixed(pattern, words string) message {
	return translation(pattern, func([]string) string { return words })
}

// operatorsOf maps words and signs of other languages to operators of CEL.
var operatorsOf = map[string]string{
	"and": "&&", "or": "||", "not": "!", "is": "==", "=": "== to compare", "&": "&&", "|": "||",
}

func withHint(problem, sign string) string {
	if operator := operatorsOf[strings.TrimSpace(sign)]; operator != "" {
		return problem + ": write " + operator
	}
	return problem
}

func unexpected(groups []string) string {
	if groups[0] == "<EOF>" {
		return "unexpected end of the expression"
	}
	return withHint(fmt.Sprintf("unexpected %q", groups[0]), groups[0])
}

// ofCompiler are the messages of the parser and the type checker.
var ofCompiler = []message{
	translation("Syntax error: token recognition error at: '(.*)'", func(g []string) string {
		return withHint(fmt.Sprintf("syntax error at %q", g[0]), g[0])
	}),
	translation("Syntax error: missing '(.*)' at '(.*)'", func(g []string) string {
		if g[1] == "<EOF>" {
			return "missing " + g[0] + " at the end of the expression"
		}
		return fmt.Sprintf("missing %s before %q", g[0], g[1])
	}),
	translation("Syntax error: (?:mismatched|extraneous) input '(.*)' expecting .*", unexpected),
	translation("Syntax error: no viable alternative at input '(.*)'", func(g []string) string {
		return fmt.Sprintf("syntax error at %q", g[0])
	}),
	translation("Syntax error: (.*)", func(g []string) string { return "syntax error: " + g[0] }),
	fixed(`invalid argument to has\(\) macro`, "has takes a field, for example has(object.spec)"),
	translation("type '(.*)' does not support field selection", func(g []string) string {
		return TypeName(g[0]) + " has no fields"
	}),
	translation("expression of type '(.*)' cannot be range of a comprehension .*", func(g []string) string {
		return TypeName(g[0]) + " is no list or object"
	}),
	translation("expected type '(.*)' but found '(.*)'", func(g []string) string {
		return "got " + TypeName(g[1]) + ", expected " + TypeName(g[0])
	}),
}

// ofEvaluation are the messages of an evaluation. In all others, numbers and quoted values are
// masked.
var ofEvaluation = []message{
	fixed("operation cancelled: actual cost limit exceeded", bound.TooMany),
	fixed("unsupported index value .* in list", "the index of a list must be an int, got a double"),
	translation("unsupported index type '(.*)' in list", func(g []string) string {
		return "the index of a list must be an int, got " + TypeName(g[0])
	}),
	translation("type conversion error from '(.*)' to '(.*)'", func(g []string) string {
		return TypeName(g[0]) + " cannot be converted to " + TypeName(g[1])
	}),
	fixed("insert failed: key .* already exists", "an object has a key twice"),
	fixed("cannot initialize optional .* from non-optional value .*",
		"the value after ? must be an optional: write object.?field"),
	fixed("value .* is not optional", "an element of the list is no optional"),
	fixed("unknown time zone .*", "unknown time zone"),
	fixed("join: invalid input: .*", "join takes a list of strings"),
	fixed("no such overload", "an operand has the wrong type: &&, ||, ! and ?: take a bool"),
	fixed(`optional.none\(\) dereference`, "the optional has no value: write orValue(default)"),
}

func translated(messages []message, problem string) (string, bool) {
	for _, m := range messages {
		if groups := m.pattern.FindStringSubmatch(problem); groups != nil {
			return m.words(groups[1:]), true
		}
	}
	return problem, false
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '(.*)' \(in container ''\)$`)
	overloaded = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	missingKey = regexp.MustCompile(`(?s)^no such key: (.*)$`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	// values are the quoted texts and the numbers in a message.
	values = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|-?\\b[0-9][0-9.eE+-]*\\b")
)

func (e *Env) compileProblem(ast *cel.Ast, problem string, at common.Location) (string, common.Location) {
	if groups := overloaded.FindStringSubmatch(problem); groups != nil {
		return e.overload(groups[1], groups[2]), at
	}
	groups := undeclared.FindStringSubmatch(problem)
	if groups == nil {
		problem, _ = translated(ofCompiler, problem)
		return problem, at
	}
	// Arguments are checked before the function that binds their names.
	if name, call := e.unknownFunction(ast); call != nil {
		at = ast.NativeRep().SourceInfo().GetStartLocation(call.ID())
		if e.isMacro(name) {
			return "wrong arguments of " + name, at
		}
		return fmt.Sprintf("unknown function %q", name), at
	}
	names, known := e.names(), "the variable is "
	if len(names) > 1 {
		known = "the variables are "
	}
	return fmt.Sprintf("unknown variable %q: %s%s", groups[1], known, strings.Join(names, ", ")), at
}

func (e *Env) names() (out []string) {
	for _, v := range e.Variables() {
		if v.Type().Kind() != types.TypeKind {
			out = append(out, v.Name())
		}
	}
	slices.Sort(out)
	return out
}

func (e *Env) unknownFunction(ast *cel.Ast) (name string, first celast.Expr) {
	celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), func(n celast.NavigableExpr) bool {
		if n.Kind() != celast.CallKind || first != nil {
			return false
		}
		called := n.AsCall().FunctionName()
		known := e.HasFunction(called)
		if n.AsCall().IsMemberFunction() && n.AsCall().Target().Kind() == celast.IdentKind {
			known = known || e.HasFunction(n.AsCall().Target().AsIdent()+"."+called)
		}
		if !known {
			name, first = called, n
		}
		return false
	})
	return name, first
}

func (e *Env) isMacro(name string) bool {
	return slices.ContainsFunc(append(slices.Clone(parser.AllMacros), e.Macros()...), func(m cel.Macro) bool {
		return m.Function() == name
	})
}

func (e *Env) overload(name, signature string) string {
	target, list, _ := strings.Cut(signature, "(")
	if !strings.HasSuffix(target, ".") { // a target may have parameters
		target = ""
		if i := strings.LastIndex(signature, ".("); i >= 0 && !strings.HasPrefix(signature, "(") {
			target, list = signature[:i+1], signature[i+2:]
		}
	}
	args := typesIn(strings.TrimSuffix(list, ")"))
	if operator, ok := operators.FindReverse(name); ok && target == "" {
		return mismatch(name, operator, args)
	}
	calls := []string{}
	for _, o := range e.Functions()[name].OverloadDecls() {
		var takes []string
		for _, t := range o.ArgTypes() {
			takes = append(takes, t.String())
		}
		calls = append(calls, callOf(name, takes, o.IsMemberFunction()))
	}
	if target != "" {
		args = append([]string{strings.TrimSuffix(target, ".")}, args...)
	}
	problem := "got " + callOf(name, args, target != "")
	if len(calls) > 3 {
		return problem + ": the function does not take these types"
	}
	return problem + ": write " + strings.Join(calls, " or ")
}

func callOf(name string, args []string, member bool) string {
	short := make([]string, len(args))
	for i, t := range args {
		short[i] = shortType(t)
	}
	if member && len(short) > 0 {
		return short[0] + "." + name + "(" + strings.Join(short[1:], ", ") + ")"
	}
	return name + "(" + strings.Join(short, ", ") + ")"
}

func mismatch(name, operator string, args []string) string {
	names := make([]string, len(args))
	for i, t := range args {
		names[i] = TypeName(t)
	}
	is := func(name string) bool { return slices.Contains(names, name) }
	compares := (name == operators.Equals || name == operators.NotEquals) && len(names) == 2
	problem := fmt.Sprintf("%s does not take %s", operator, strings.Join(names, " and "))
	switch {
	case name == operators.Conditional && len(names) == 3:
		if names[0] != "a bool" && names[0] != "any value" {
			return "the condition of ?: must be a bool, got " + names[0]
		}
		return "both results of ?: must have one type, got " + names[1] + " and " + names[2]
	case compares:
		problem = names[0] + " cannot equal " + names[1]
	}
	switch {
	case is("an optional"):
		return problem + ": write orValue(default)"
	case compares && is("an object"):
		return problem + ": compare a field of the object"
	case !compares && is("a string") && (is("an int") || is("a uint") || is("a double")):
		return problem + ": convert one of them, for example with int or string"
	}
	return problem
}

// typesIn splits types at the commas that are not in parentheses.
func typesIn(list string) (out []string) {
	depth, start := 0, 0
	for i, r := range list {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out, start = append(out, strings.TrimSpace(list[start:i])), i+1
			}
		}
	}
	if list == "" {
		return nil
	}
	return append(out, strings.TrimSpace(list[start:]))
}

// plainTypes maps names of types to plain words.
var plainTypes = map[string]string{
	"map": "object", "optional_type": "optional", "null_type": "null", "dyn": "any",
	"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration",
}

func shortType(name string) string {
	name, _, _ = strings.Cut(name, "(")
	if len(name) == 1 { // a parameter
		return "any"
	}
	return cmp.Or(plainTypes[name], name)
}

// TypeName returns the name of a CEL type in plain words, with its article.
func TypeName(name string) string {
	switch name = shortType(name); {
	case name == "any":
		return "any value"
	case name == "null" || name == "bytes":
		return name
	case name != "uint" && strings.ContainsAny(name[:1], "aeiou"):
		return "an " + name
	}
	return "a " + name
}

// evalProblem returns the text of an error of cel-go in an evaluation. It quotes only text of the
// expression, because values of variables may be secret.
func evalProblem(problem, expression string) string {
	if groups := missingKey.FindStringSubmatch(problem); groups != nil {
		switch key := groups[1]; {
		case !strings.Contains(expression, key):
			return "no such key"
		case identifier.MatchString(key):
			return "no such key: " + key + ": write ?" + key + " for a field that may be missing"
		}
		return problem
	}
	if words, ok := translated(ofEvaluation, problem); ok {
		return words
	}
	return values.ReplaceAllStringFunc(problem, func(value string) string {
		if strings.Contains(expression, value) {
			return value
		}
		return "…"
	})
}

func lastOf(expression string) common.Location {
	trimmed := []rune(strings.TrimRightFunc(expression, unicode.IsSpace))
	line, column := 1, 0
	for _, r := range trimmed[:max(len(trimmed)-1, 0)] {
		if column++; r == '\n' {
			line, column = line+1, 0
		}
	}
	return common.NewLocation(line, column)
}

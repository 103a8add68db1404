// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package customization

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/spokewire/sdk-go/internal/bound"
)

const noPath = "has no field: write names with dots between them, such as spec.template"

// splitPath returns the fields of a path, or an error if no object can have them. The error does not
// quote the path, which may be a value of an object.
func splitPath(path string) ([]string, error) {
	fields := strings.Split(path, ".")
	if slices.Contains(fields, "") || strings.ContainsAny(path, "[]/") {
		return nil, errors.New("a path " + noPath)
	}
	return fields, nil
}

func paths(steps *bound.Steps, list ref.Val) ([][]string, error) {
	var out [][]string
	err := each(steps, list, func(path ref.Val) error {
		p, ok := path.(types.String)
		if !ok {
			return fmt.Errorf("a path is %s: write a string", typeOf(path))
		}
		fields, err := splitPath(string(p))
		if err != nil {
			return err
		}
		out = append(out, fields)
		return steps.Take("a path", len(p))
	})
	return out, err
}

// pathArguments maps the functions with paths to the index of the argument with the path or the
// list of paths.
var pathArguments = map[string]int{"pick": 1, "reflectStatus": 1, "sums": 0, "values": 0}

// pathValidator reports invalid paths among the constants of an expression when it is compiled.
type pathValidator struct{}

// Name implements [cel.ASTValidator].
func (pathValidator) Name() string { return "customization.paths" }

// Validate implements [cel.ASTValidator].
func (pathValidator) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	check := func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if path, ok := e.AsLiteral().(types.String); ok {
			if _, err := splitPath(string(path)); err != nil {
				issues.ReportErrorAtID(e.ID(), "the path %q %s", string(path), noPath)
			}
		}
	}
	ast.MatchDescendants(ast.NavigateAST(a), func(e ast.NavigableExpr) bool {
		if e.Kind() != ast.CallKind {
			return false
		}
		n, ok := pathArguments[e.AsCall().FunctionName()]
		if !ok || n >= len(e.AsCall().Args()) {
			return false
		}
		argument := e.AsCall().Args()[n]
		check(argument)
		if argument.Kind() == ast.ListKind {
			for _, element := range argument.AsList().Elements() {
				check(element)
			}
		}
		return false
	})
}

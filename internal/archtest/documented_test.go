// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documented is a public package as godoc shows it, with its tests.
type documented struct {
	name      string
	fset      *token.FileSet
	files     []*ast.File // without tests
	doc       *doc.Package
	generated map[string]bool // files, by their paths
}

// publicDocs returns the packages that a user can import.
func publicDocs(t *testing.T) []documented {
	t.Helper()
	var all []documented
	for _, p := range goList(t, "./...") {
		if name := name(p.ImportPath); !showsOff(name) && !strings.Contains("/"+name+"/", "/internal/") {
			all = append(all, readDoc(t, p))
		}
	}
	return all
}

func readDoc(t *testing.T, p listed) documented {
	t.Helper()
	d := documented{name: name(p.ImportPath), fset: token.NewFileSet(), generated: map[string]bool{}}
	parse := func(names []string) []*ast.File {
		var files []*ast.File
		for _, name := range names {
			path := filepath.Join(p.Dir, name)
			file, err := parser.ParseFile(d.fset, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			d.generated[path] = ast.IsGenerated(file)
			files = append(files, file)
		}
		return files
	}
	d.files = parse(p.GoFiles)
	var err error
	all := slices.Concat(d.files, parse(p.TestGoFiles), parse(p.XTestGoFiles))
	// With PreserveAST, d.files keeps the declarations that the documentation omits.
	if d.doc, err = doc.NewFromFiles(d.fset, all, p.ImportPath, doc.PreserveAST); err != nil {
		t.Fatal(err)
	}
	return d
}

// isGenerated reports whether a node is in a generated file.
func (d documented) isGenerated(at ast.Node) bool {
	return d.generated[d.fset.Position(at.Pos()).Filename]
}

// TestDocComments checks that every name that a user can use has a comment: packages, types,
// functions, methods, constants and variables, the methods of interfaces and the fields of options.
func TestDocComments(t *testing.T) {
	for _, d := range publicDocs(t) {
		t.Run(d.name, func(t *testing.T) {
			if d.doc.Doc == "" {
				t.Error("the package has no comment")
			}
			for _, missing := range undocumented(d) {
				t.Errorf("%s has no comment", missing)
			}
		})
	}
}

// undocumented returns the names without a comment.
func undocumented(d documented) []string {
	var missing []string
	note := func(name string, at ast.Node, comments ...*ast.CommentGroup) {
		if !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" }) && !d.isGenerated(at) {
			missing = append(missing, name)
		}
	}
	for _, file := range d.files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if exportedFunc(decl) {
					note(decl.Name.Name, decl, decl.Doc)
				}
			case *ast.GenDecl:
				undocumentedSpecs(decl, note)
			}
		}
	}
	return missing
}

// exportedFunc reports whether a function is exported, or a method and its type are.
func exportedFunc(f *ast.FuncDecl) bool {
	if !f.Name.IsExported() || f.Recv == nil {
		return f.Name.IsExported()
	}
	receiver := f.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return false
		}
	}
}

// undocumentedSpecs notes the undocumented names in a declaration of types, constants or variables.
func undocumentedSpecs(decl *ast.GenDecl, note func(string, ast.Node, ...*ast.CommentGroup)) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				if decl.Lparen.IsValid() { // a comment on several types does not describe each type
					note(spec.Name.Name, spec, spec.Doc)
				} else {
					note(spec.Name.Name, spec, spec.Doc, decl.Doc)
				}
				undocumentedMembers(spec, spec.Doc.Text()+decl.Doc.Text(), note)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					note(name.Name, name, spec.Doc, spec.Comment, decl.Doc)
				}
			}
		}
	}
}

// undocumentedMembers notes undocumented methods of interfaces and fields of options. A comment on
// the type or on another member may name a member instead. Other structs are skipped, because names
// and types often describe their fields.
func undocumentedMembers(spec *ast.TypeSpec, about string, note func(string, ast.Node, ...*ast.CommentGroup)) {
	var members *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		if !strings.HasSuffix(spec.Name.Name, "Options") {
			return
		}
		members = typ.Fields
	case *ast.InterfaceType:
		members = typ.Methods
	default:
		return
	}
	for _, member := range members.List {
		about += member.Doc.Text()
	}
	for _, member := range members.List {
		for _, name := range member.Names {
			if name.IsExported() && !regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(about) {
				note(spec.Name.Name+"."+name.Name, name, member.Doc, member.Comment)
			}
		}
	}
}

// TestConstructorExamples checks that each constructor has an Example with output. Constructors are
// functions and methods with names that begin with New, and functions that return a type of their
// package.
func TestConstructorExamples(t *testing.T) {
	for _, d := range publicDocs(t) {
		t.Run(d.name, func(t *testing.T) {
			for _, name := range withoutExample(d) {
				t.Errorf("%s has no Example with output", name)
			}
		})
	}
}

// withoutExample returns the names of the constructors without an Example with output.
func withoutExample(d documented) []string {
	var missing []string
	note := func(name string, f *doc.Func) {
		if !d.isGenerated(f.Decl) && !slices.ContainsFunc(f.Examples, func(e *doc.Example) bool { return e.Output != "" }) {
			missing = append(missing, name)
		}
	}
	for _, f := range d.doc.Funcs {
		if strings.HasPrefix(f.Name, "New") || d.makesOwn(f.Decl) {
			note(f.Name, f)
		}
	}
	for _, typ := range d.doc.Types {
		for _, f := range typ.Funcs { // godoc lists them under the type that they return
			note(f.Name, f)
		}
		for _, m := range typ.Methods {
			if strings.HasPrefix(m.Name, "New") {
				note(typ.Name+"."+m.Name, m)
			}
		}
	}
	return missing
}

// makesOwn reports whether a function returns a pointer to a type of its package. godoc does not
// list the function under that type if the type is not exported, or if the function returns several
// types.
func (d documented) makesOwn(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	return slices.ContainsFunc(f.Type.Results.List, func(result *ast.Field) bool {
		pointer, ok := result.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		switch typ := pointer.X.(type) {
		case *ast.Ident:
			return true
		case *ast.IndexExpr:
			_, ok = typ.X.(*ast.Ident)
		case *ast.IndexListExpr:
			_, ok = typ.X.(*ast.Ident)
		default:
			ok = false
		}
		return ok
	})
}

// TestDocumentationIsRead runs the two checks above on a package with each kind of mistake.
func TestDocumentationIsRead(t *testing.T) {
	folder := filepath.Join("testdata", "documented")
	d := readDoc(t, listed{ImportPath: modulePath + "/zz", Dir: folder, GoFiles: []string{"zz.go"},
		XTestGoFiles: []string{"zz_test.go"}})
	if diff := cmp.Diff([]string{"A", "B", "B.Do", "Put", "Value", "ErrX"}, undocumented(d)); diff != "" {
		t.Errorf("without a comment (-want +got):\n%s", diff)
	}
	want := []string{
		"A.NewChild", "NewForeign", "NewG", "NewHidden", "NewIface", "NewNoOutput", "NewSuffix", "Open", "OpenHidden",
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(withoutExample(d)))); diff != "" {
		t.Errorf("without an Example (-want +got):\n%s", diff)
	}
}

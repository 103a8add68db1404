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
)

// documented is a public package as godoc shows it, with its tests.
type documented struct {
	name      string
	fset      *token.FileSet
	files     []*ast.File // without tests
	doc       *doc.Package
	generated map[string]bool // files, by their paths
}

// publicDocs reads the packages that a user can import.
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
	// What is left out of the documentation stays in d.files.
	if d.doc, err = doc.NewFromFiles(d.fset, all, p.ImportPath, doc.PreserveAST); err != nil {
		t.Fatal(err)
	}
	return d
}

// isGenerated reports whether a place is in a generated file.
func (d documented) isGenerated(at ast.Node) bool {
	return d.generated[d.fset.Position(at.Pos()).Filename]
}

// TestDocComments wants words on everything that a user can name: packages, types, functions, methods, constants and
// variables, the methods of interfaces and the fields of options.
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

// undocumented names what has no comment.
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

// exportedFunc reports whether a function, or a method and its type, are exported.
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

// undocumentedSpecs notes the names of a declaration of types, constants or variables.
func undocumentedSpecs(decl *ast.GenDecl, note func(string, ast.Node, ...*ast.CommentGroup)) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				note(spec.Name.Name, spec, spec.Doc, decl.Doc)
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

// undocumentedMembers notes methods of interfaces and fields of options. The comment on the type or on another member may
// speak of one by its name. Other fields are often what their names and types say.
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

// TestConstructorExamples wants an Example with output for each way to make something: functions called New, and those that
// godoc lists below the type that they return.
func TestConstructorExamples(t *testing.T) {
	for _, d := range publicDocs(t) {
		t.Run(d.name, func(t *testing.T) {
			for _, f := range constructors(d) {
				if !slices.ContainsFunc(f.Examples, func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }) {
					t.Errorf("%s has no Example%s with output", f.Name, f.Name)
				}
			}
		})
	}
}

func constructors(d documented) []*doc.Func {
	var found []*doc.Func
	for _, f := range d.doc.Funcs {
		if strings.HasPrefix(f.Name, "New") {
			found = append(found, f)
		}
	}
	for _, typ := range d.doc.Types {
		found = append(found, typ.Funcs...)
	}
	return slices.DeleteFunc(found, func(f *doc.Func) bool { return d.isGenerated(f.Decl) })
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package commands_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the top of the tree: go test runs in the folder of the package.
var root = filepath.Join("..", "..", "..")

// command is a command in a document.
type command struct {
	text string
	at   string // the document
}

var (
	// begins matches the beginning of a command outside of blocks that contain only commands.
	begins = regexp.MustCompile(
		`^(go (run|test|get|build|install|vet|doc|mod)|make|\.ci/run|apt-get|mosquitto(_\w+)?|kubectl|curl|export|cd|docker|helm|git|ulimit|etcdctl|sudo|gofmt|openssl) `)
	// quoted matches a text between backquotes, which may continue on the next line.
	quoted = regexp.MustCompile("`([^`]+)`")
	spaces = regexp.MustCompile(`\s+`)
	// remark matches a comment of a shell.
	remark = regexp.MustCompile(`(^|\s)#.*$`)
)

// isCommand reports whether text outside of a block is a command, and not just the name of a program.
func isCommand(text string) bool {
	words := strings.Fields(text)
	return begins.MatchString(text+" ") && (len(words) > 2 || len(words) == 2 && words[0] != "go" || text == ".ci/run")
}

// tidy returns a command in the form of the table.
func tidy(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(text, " "))
}

// markdown finds the commands of a .md file.
func markdown(text, at string) []command {
	var found []command
	add := func(text string) {
		if text = tidy(text); text != "" {
			found = append(found, command{text, at})
		}
	}
	prose, block, open := &strings.Builder{}, "", false
	line := "" // continues on the next line
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		switch fence, marked := strings.CutPrefix(strings.TrimSpace(l), "```"); {
		case marked && !open:
			open, block = true, fence
		case marked:
			open = false
		case !open:
			prose.WriteString(l + "\n")
		case block == "sh":
			l = remark.ReplaceAllString(l, "")
			if more, ok := strings.CutSuffix(l, `\`); ok {
				line += more + " "
				continue
			}
			add(line + l)
			line = ""
		case block == "" && (begins.MatchString(tidy(l) + " ")):
			add(remark.ReplaceAllString(l, ""))
		}
	}
	begun := "" // a command that other commands of the document continue
	for _, c := range found {
		if strings.HasSuffix(c.text, " -bench") {
			begun = c.text
		}
	}
	for _, match := range quoted.FindAllStringSubmatch(prose.String(), -1) {
		switch text := tidy(strings.ReplaceAll(match[1], `\|`, "|")); { // as tables escape it
		case isCommand(text):
			add(text)
		case begun != "" && strings.Contains(text, " -benchtime="):
			add(begun + " " + text)
		}
	}
	return found
}

// goDoc finds the commands of a package doc: indented lines, and quoted texts.
func goDoc(text, at string) []command {
	var found []command
	prose := &strings.Builder{}
	line := ""
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		if !strings.HasPrefix(l, "\t") && !strings.HasPrefix(l, "  ") {
			prose.WriteString(l + "\n")
			continue
		}
		l = remark.ReplaceAllString(l, "")
		l, _, _ = strings.Cut(strings.TrimSpace(l), "  ") // and the description of the command
		if more, ok := strings.CutSuffix(l, `\`); ok {
			line += more + " "
			continue
		}
		if l = tidy(line + l); isCommand(l) {
			found = append(found, command{l, at})
		}
		line = ""
	}
	for _, match := range quoted.FindAllStringSubmatch(prose.String(), -1) {
		if isCommand(tidy(match[1])) {
			found = append(found, command{tidy(match[1]), at})
		}
	}
	return found
}

// documents finds the commands of the whole tree.
func documents(t *testing.T) []command {
	t.Helper()
	var found []command
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		at := filepath.ToSlash(name)
		switch {
		case strings.HasSuffix(at, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found = append(found, markdown(string(text), at)...)
		case strings.HasSuffix(at, ".go") && !strings.HasSuffix(at, "_test.go"):
			more, err := packageDoc(path, at)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// packageDoc finds the commands in a file's package doc, and in an example's strings, which users
// read too.
func packageDoc(path, at string) ([]command, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	found := goDoc(file.Doc.Text(), at)
	if !strings.HasPrefix(at, "examples/") {
		return found, nil
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.HasPrefix(literal.Value, "`") {
			found = append(found, goDoc(strings.Trim(literal.Value, "`"), at)...)
		}
		return true
	})
	return found, nil
}

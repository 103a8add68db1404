// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
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

// rates are the most uses of a phrase in 10,000 words. The limits are twice the greatest rate in
// the comments of controller-runtime, client-go, bbolt, grpc-go and etcd's client.
var rates = []struct {
	phrase string
	match  *regexp.Regexp
	limit  float64
	write  string
}{
	{"what is …", regexp.MustCompile(`(?i)\bwhat (is|was|has|are|were|it|they|an?|the|can|may|must|there)\b`), 9.4,
		"name the thing"},
	{"say", regexp.MustCompile(`(?i)\bsays?\b`), 1.6, "report, return, contain"},
	{"none", regexp.MustCompile(`(?i)\bnone\b`), 5.2, "no NOUN, nil, zero"},
	{"whose", regexp.MustCompile(`(?i)\bwhose\b`), 2.4, "with"},
	{"nobody, beside, anew", regexp.MustCompile(`(?i)\b(nobody|beside|anew)\b`), 0, "no NOUN; next to, besides; again"},
}

// longDocs are the package docs of more than maxDoc lines, with their present lengths.
var longDocs = map[string]int{}

const maxDoc = 120

// TestPlainWords checks that comments and Markdown pages use words that a reader of other Go
// projects expects.
func TestPlainWords(t *testing.T) {
	texts := map[string][]text{}
	for _, x := range readTexts(t) {
		texts[x.kind] = append(texts[x.kind], x)
	}
	for kind, all := range texts {
		t.Run(kind, func(t *testing.T) {
			words := 0
			for _, x := range all {
				words += len(strings.Fields(x.words))
			}
			for _, r := range rates {
				var places []string
				for _, x := range all {
					for _, at := range r.match.FindAllStringIndex(x.words, -1) {
						places = append(places, fmt.Sprintf("%s: …%s…", x.file, around(x.words, at)))
					}
				}
				if rate := float64(len(places)) * 1e4 / float64(words); rate > r.limit {
					t.Errorf("%q is used %.1f times in 10,000 words, at most %.1f are allowed; write: %s\n%s",
						r.phrase, rate, r.limit, r.write, strings.Join(places[:min(len(places), 20)], "\n"))
				}
			}
		})
	}
}

// around returns a match with some text before and after it.
func around(s string, at []int) string {
	return strings.ToValidUTF8(s[max(at[0]-40, 0):min(at[1]+40, len(s))], "")
}

// TestPackageDocsAreShort checks the lengths of package docs. Longer texts belong in a Markdown page
// next to the package.
func TestPackageDocsAreShort(t *testing.T) {
	for _, x := range readTexts(t) {
		switch limit, exception := longDocs[x.file]; {
		case exception && x.doc < limit:
			t.Errorf("%s: the package doc has %d lines now: lower its limit", x.file, x.doc)
		case exception && x.doc > limit, !exception && x.doc > maxDoc:
			t.Errorf("%s: the package doc has %d lines, at most %d are allowed", x.file, x.doc, max(limit, maxDoc))
		}
	}
}

// text has the words of a file that a person reads.
type text struct {
	kind, file, words string
	doc               int // lines of the package doc
}

// fence matches the code blocks of a Markdown page.
var fence = regexp.MustCompile("(?s)```.*?```")

// readTexts reads the comments of all Go files that are not generated, and all Markdown pages.
func readTexts(t *testing.T) (all []text) {
	t.Helper()
	const root = "../.."
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == ".git") {
			return fs.SkipDir
		}
		x := text{file: filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))}
		switch {
		case strings.HasSuffix(path, ".md"):
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			x.kind, x.words = "pages", fence.ReplaceAllString(string(content), "")
		case strings.HasSuffix(path, ".go"):
			x.kind = "comments"
			if strings.HasSuffix(path, "_test.go") {
				x.kind = "comments of tests"
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if ast.IsGenerated(file) {
				return nil
			}
			var b strings.Builder
			for _, group := range file.Comments {
				b.WriteString(group.Text())
			}
			x.words = b.String()
			if file.Doc != nil {
				x.doc = strings.Count(file.Doc.Text(), "\n")
			}
		default:
			return nil
		}
		all = append(all, x)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads a folder of Kubernetes manifests, with precise errors.
//
// It reads the .yaml, .yml and .json files in the order of their names, without subfolders. A file
// may have several documents, and a List counts as its items. Every error has the file and, if
// known, the document and the line, for the author of the file.
package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/kinds"
)

// File is one manifest file. The quickstart sends it to each cluster as one work.
type File struct {
	// Name is the file's name without its folder.
	Name string
	// Work is the name of its works: the file's name without extension, as a valid object name.
	Work string
	// Objects are the file's objects in order, at least one.
	Objects []Object
}

// Object is one object and its position in a file.
type Object struct {
	*unstructured.Unstructured
	// Where is the position for messages, such as "web.yaml, document 2 (line 14)".
	Where string
}

// String returns the kind and the name for messages, such as `ConfigMap "demo/settings"`.
func (o Object) String() string {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return fmt.Sprintf("%s %q", o.GetKind(), name)
}

// Load reads every manifest file of a folder. The name of the folder is for messages only.
func Load(folder fs.FS, name string) ([]File, error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the path in the error is relative to the folder
		}
		return nil, fmt.Errorf("manifests folder %s: %w", name, err)
	}
	var files []File
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") ||
			!slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		f, err := loadFile(folder, e.Name())
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("manifests folder %s: the folder has no .yaml, .yml or .json files", name)
	}
	return files, errors.Join(sameWork(files), sameObject(files))
}

func loadFile(folder fs.FS, name string) (File, error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return File{}, fmt.Errorf("manifest file %s: %w", name, err)
	}
	work, err := workName(name)
	if err != nil {
		return File{}, err
	}
	f := File{Name: name, Work: work}
	split := splitYAML
	if path.Ext(name) == ".json" {
		split = splitJSON
	}
	docs, err := split(text)
	if err != nil {
		return File{}, fmt.Errorf("%s, %w", name, err)
	}
	for i, doc := range docs {
		where := fmt.Sprintf("%s, document %d (line %d)", name, i+1, doc.Line)
		objects, err := decode(doc, where)
		if err != nil {
			return File{}, err
		}
		f.Objects = append(f.Objects, objects...)
	}
	if len(f.Objects) == 0 {
		return File{}, fmt.Errorf("%s: the file has no object", name)
	}
	return f, nil
}

// workName converts a file's name to a valid object name: lower case, with dashes for invalid
// characters.
func workName(file string) (string, error) {
	stem := strings.ToLower(strings.TrimSuffix(file, path.Ext(file)))
	name := strings.Map(func(r rune) rune {
		if r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, stem)
	name = strings.Trim(name, "-.")
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%s: the name is not valid for a work: %s", file, problems[0])
	}
	return name, nil
}

func sameWork(files []File) error {
	seen := map[string]string{}
	for _, f := range files {
		if first, ok := seen[f.Work]; ok {
			return fmt.Errorf("%s and %s would both become the work %q: rename one", first, f.Name, f.Work)
		}
		seen[f.Work] = f.Name
	}
	return nil
}

// sameObject returns an error for a duplicate object: two works would overwrite each other, and the
// end of one would delete the object of the other.
func sameObject(files []File) error {
	type identity struct {
		schema.GroupKind
		namespace, name string
	}
	seen := map[identity]string{}
	for _, f := range files {
		for _, o := range f.Objects {
			id := identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
			if id.namespace == "" {
				id.namespace = "default"
			}
			if first, ok := seen[id]; ok {
				return fmt.Errorf("%s: %s is already in %s", o.Where, o, first)
			}
			seen[id] = o.Where
		}
	}
	return nil
}

// CheckKinds returns an error for the first object with a kind that is neither known nor defined by
// a CustomResourceDefinition in one of the files.
func CheckKinds(files []File, known func(schema.GroupVersionKind) (bool, error)) error {
	defined := map[schema.GroupVersionKind]bool{}
	for _, f := range files {
		for _, o := range f.Objects {
			custom, err := kinds.Defined(o.Unstructured)
			if err != nil {
				return fmt.Errorf("%s: %w", o.Where, err)
			}
			for _, k := range custom {
				defined[k.GVK] = true
			}
		}
	}
	for _, f := range files {
		for _, o := range f.Objects {
			gvk := o.GroupVersionKind()
			if defined[gvk] {
				continue
			}
			ok, err := known(gvk)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%s: unknown kind %q in %q (neither built in nor from a CustomResourceDefinition "+
					"in these files)",
					o.Where, gvk.Kind, o.GetAPIVersion())
			}
		}
	}
	return nil
}

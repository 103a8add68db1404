// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder reads manifests from a folder.
package folder

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const bufferSize = 4096

// Read returns the objects of all files that end in .yaml, .yml or .json, in the order of their names, and nil in the
// place of what cannot be read or decoded; the errors say what that is.
func Read(files fs.FS) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var errs []error
	err := each(files, func(name string, content []byte) {
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), bufferSize)
		for n := 1; ; n++ {
			obj := &unstructured.Unstructured{}
			err := decoder.Decode(&obj.Object)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				objects = append(objects, nil)
				errs = append(errs, fmt.Errorf("%s, document %d: %w", name, n, err))
				return
			}
			if len(obj.Object) > 0 {
				objects = append(objects, obj)
			}
		}
	})
	if err != nil {
		objects = append(objects, nil) // for all that was not read
	}
	return objects, errors.Join(append(errs, err)...)
}

// Fingerprint is another when a file is.
func Fingerprint(files fs.FS) string {
	h := fnv.New64a()
	err := each(files, func(name string, content []byte) { fmt.Fprintf(h, "%s %d ", name, len(content)); h.Write(content) })
	return fmt.Sprint(h.Sum64(), err)
}

func each(files fs.FS, visit func(name string, content []byte)) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch path.Ext(name) {
		case ".yaml", ".yml", ".json":
			content, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			visit(name, content)
		}
		return nil
	})
}

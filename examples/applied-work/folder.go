// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// readManifests returns the objects of all .yaml, .yml and .json files, in the order of their names. An
// element is nil if it cannot be read or decoded. The error describes these elements.
func readManifests(files fs.FS) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var errs []error
	err := eachManifest(files, func(name string, content []byte) {
		n := 0
		for document, err := range yamldoc.Split(content) {
			n++
			obj := &unstructured.Unstructured{}
			if err == nil {
				err = decode(document, &obj.Object)
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
		objects = append(objects, nil) // for the files that were not read
	}
	return objects, errors.Join(append(errs, err)...)
}

func decode(document yamldoc.Document, into *map[string]any) error {
	text, err := document.JSON()
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(text, into)
}

// fingerprint returns a hash of the manifest files, which changes with their names and contents.
func fingerprint(files fs.FS) string {
	h := fnv.New64a()
	err := eachManifest(files,
		func(name string, content []byte) { fmt.Fprintf(h, "%s %d ", name, len(content)); h.Write(content) })
	return fmt.Sprint(h.Sum64(), err)
}

func eachManifest(files fs.FS, visit func(name string, content []byte)) error {
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

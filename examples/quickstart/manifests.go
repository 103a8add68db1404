// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// file is a file of manifests, which becomes one work for each cluster.
type file struct {
	work    string // the name of the file without its extension
	objects []*unstructured.Unstructured
}

// readManifests reads the manifest files of a folder, in the order of their names.
func readManifests(folder fs.FS) (files []file, err error) {
	entries, err := fs.ReadDir(folder, ".")
	if failed := new(fs.PathError); errors.As(err, &failed) {
		return nil, failed.Err // its path is "."
	}
	for _, e := range entries {
		name := e.Name()
		ext := path.Ext(name)
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			continue
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		f := file{work: strings.TrimSuffix(name, ext)}
		for d, err := range yamldoc.Split(text) {
			var obj unstructured.Unstructured
			if err == nil {
				var raw []byte
				if raw, err = d.StrictJSON(); err == nil {
					err = obj.UnmarshalJSON(raw)
				}
			}
			if err == nil && obj.GetName() == "" {
				err = errors.New("metadata.name is missing")
			}
			if err != nil {
				return nil, fmt.Errorf("%s, document %d (line %d): %w", name, len(f.objects)+1, d.Line, err)
			}
			f.objects = append(f.objects, &obj)
		}
		if len(f.objects) > 0 {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("the folder has no .yaml, .yml or .json files with objects")
	}
	return files, nil
}

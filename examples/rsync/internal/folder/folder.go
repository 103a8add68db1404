// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder reads an app context from a folder of manifests.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Read returns a context with an app for each folder in a folder, in the order of their names. An
// app with the given name has the files in the folder itself. Each app is on all clusters. Its
// resources are the documents of all .yaml, .yml and .json files, in the order of the file names.
//
// Helm's annotations make a resource a hook, with its weight and its delete policies. A resource is
// omitted if it has only hooks without an event of the engine, such as pre-upgrade or test. For
// other resources, the annotation argocd.argoproj.io/sync-wave is the wave.
//
// Overrides change objects on some of the clusters. An error has the fault [appcontext.FaultBadOverride]
// if only they are invalid.
func Read(files fs.FS, id, app string, clusters []appcontext.ClusterID, overrides []Override) (
	*appcontext.AppContext, error,
) {
	b := appcontext.NewBuilder(id)
	found := false
	owners := map[appcontext.Object]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch path.Ext(name) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		owner := app
		if dir := path.Dir(name); dir != "." {
			owner = dir
		}
		documents, err := split(files, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, document := range documents {
			r, used, err := resourceOf(document)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found = true
			if object, err := appcontext.ParseObject(r.Manifest); err == nil && used {
				owners[object] = owner
			}
			for _, c := range clusters {
				if used {
					b.App(owner).Add(c.Provider, c.Name, r)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errors.New("no manifest in a file that ends in .yaml, .yml or .json")
	}
	if len(overrides) > 0 {
		if _, err := b.Build(); err != nil {
			return nil, err
		}
	}
	for _, o := range overrides {
		if err := o.add(b, owners, clusters); err != nil {
			return nil, err
		}
	}
	return b.Build()
}

// split returns the non-empty documents of a file.
func split(files fs.FS, name string) ([][]byte, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for document, err := range yamldoc.Split(content) {
		if err != nil {
			return nil, err
		}
		out = append(out, document.Text)
	}
	return out, nil
}

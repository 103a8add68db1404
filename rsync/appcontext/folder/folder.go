// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder builds the apps of an AppContext from a folder of manifests, for example the
// output of helm template --output-dir.
//
//	b := appcontext.NewBuilder("shop")
//	err := folder.Add(b, os.DirFS("manifests"), "main", appcontext.ClusterID{Provider: "edge", Name: "cluster1"})
//	shop, err := b.Build()
package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// Annotations of manifests: those of Helm's hooks, and Argo CD's for the waves of other resources.
const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	policyAnnotation = "helm.sh/hook-delete-policy"
	waveAnnotation   = "argocd.argoproj.io/sync-wave"
)

// Add adds an app for each folder in files, on all clusters, in the order of the folders' names.
// The manifests at the root of files belong to the app with the given name. Resources are the
// documents of all .yaml, .yml and .json files, in the order of the files' names. Build of the
// Builder reports invalid manifests.
//
// The annotations helm.sh/hook, helm.sh/hook-weight and helm.sh/hook-delete-policy make a resource
// a hook. Add omits a manifest if all of its hooks are unsupported, for example pre-upgrade and
// test; [appcontext.Hooks] has the supported ones. For resources without a hook,
// argocd.argoproj.io/sync-wave is the wave. Add returns an error for an invalid annotation, and if
// files has no manifest.
func Add(b *appcontext.Builder, files fs.FS, app string, clusters ...appcontext.ClusterID) error {
	found := false
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		owner := app
		if dir := path.Dir(name); dir != "." {
			owner = dir
		}
		for document, err := range yamldoc.Split(content) {
			if err == nil {
				err = add(b, owner, document.Text, clusters)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found = true
		}
		return nil
	})
	if err == nil && !found {
		err = errors.New("no manifest in a file that ends in .yaml, .yml or .json")
	}
	return err
}

// add adds a manifest to an app, unless it has only hooks that no event runs.
func add(b *appcontext.Builder, app string, manifest []byte, clusters []appcontext.ClusterID) error {
	annotations, err := annotationsOf(manifest)
	if err != nil {
		return err
	}
	r, weight := appcontext.Resource{Manifest: manifest}, waveAnnotation
	if text, ok := annotations[hookAnnotation]; ok {
		weight = weightAnnotation
		if r.Hook, err = hookOf(text); err != nil || r.Hook == appcontext.HookNone {
			return err
		}
		for _, policy := range list(annotations[policyAnnotation]) {
			r.DeletePolicies = append(r.DeletePolicies, appcontext.HookDeletePolicy(policy))
		}
	}
	if text, ok := annotations[weight]; ok {
		if r.Wave, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("annotation %s: %q: must be a number", weight, text)
		}
	}
	for _, c := range clusters {
		b.App(app).Add(c.Provider, c.Name, r)
	}
	return nil
}

// hookOf returns the only hook in a list that the engine supports, or HookNone.
func hookOf(text string) (appcontext.Hook, error) {
	found := appcontext.HookNone
	for _, name := range list(text) {
		hook := appcontext.Hook(name)
		switch {
		case !slices.Contains(appcontext.Hooks(), hook):
		case found != appcontext.HookNone:
			return "", fmt.Errorf("annotation %s: has the hooks %s and %s: only one is possible", hookAnnotation,
				found, hook)
		default:
			found = hook
		}
	}
	return found, nil
}

// annotationsOf returns the annotations of a manifest. It returns nil for invalid YAML, which the
// builder rejects.
func annotationsOf(manifest []byte) (map[string]string, error) {
	text, err := yamldoc.JSON(manifest)
	if err != nil {
		return nil, nil //nolint:nilerr // the builder reports it
	}
	var content struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(text, &content) != nil {
		return nil, errors.New("metadata.annotations: values must be strings: write numbers in quotes")
	}
	return content.Metadata.Annotations, nil
}

// list returns the non-empty parts of a list with commas.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

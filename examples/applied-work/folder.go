// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/wait"
	"github.com/spokewire/sdk-go/internal/yamldoc"
)

// follow applies a folder at the start and after each change.
func (e *example) follow(ctx context.Context, files fs.FS) {
	var last any // the objects of the last apply
	for ctx.Err() == nil {
		if objects, err := readManifests(files); !reflect.DeepEqual(last, objects) {
			last = objects
			if err := e.apply(ctx, objects, err); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintln(e.stdout, err)
			}
		}
		_ = wait.Sleep(ctx, clock.RealClock{}, time.Second)
	}
}

// readManifests returns the objects of all .yaml, .yml and .json files, in the order of their names. An
// element is nil if it cannot be read or decoded. The error describes these elements.
func readManifests(files fs.FS) (objects []*unstructured.Unstructured, err error) {
	var errs []error
	failed := func(err error) { objects, errs = append(objects, nil), append(errs, err) }
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		n := 0
		for document, err := range yamldoc.Split(content) {
			n++
			obj := &unstructured.Unstructured{}
			if err == nil {
				err = decode(document, &obj.Object)
			}
			if err != nil {
				failed(fmt.Errorf("%s, document %d: %w", name, n, err))
				return nil
			}
			if len(obj.Object) > 0 {
				objects = append(objects, obj)
			}
		}
		return nil
	})
	if err != nil {
		failed(err) // for the files that were not read
	}
	return objects, errors.Join(errs...)
}

func decode(document yamldoc.Document, into *map[string]any) error {
	text, err := document.JSON()
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(text, into)
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package customizations reads files with customizations of kinds: those of package
// interpreter/customization, in CEL, and Karmada's, in Lua. It also reads files with objects of any
// kind.
package customizations

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/internal/folderwatch"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/lua"
)

// Interpreter interprets the kinds of customizations. It tries those in CEL first.
type Interpreter struct {
	*caller.Chained
	// Kinds are the targets of the customizations.
	Kinds []schema.GroupVersionKind
}

// Open returns an interpreter of the customizations in files, and in the .yaml, .yml and .json
// files of folders. A file has customizations in CEL or in Lua, not both.
func Open(paths ...string) (*Interpreter, error) {
	var inCEL []customization.File
	var inLua []lua.File
	for _, path := range paths {
		if err := read(path, func(file string, text []byte) error {
			ofKarmada, err := isKarmadas(file, text)
			switch {
			case err != nil:
				return mistake(file, err)
			case ofKarmada:
				inLua = append(inLua, lua.File{Name: file, Text: text})
			default:
				inCEL = append(inCEL, customization.File{Name: file, Text: text})
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	first, err := customization.New(inCEL...)
	if err != nil {
		return nil, err
	}
	second, err := lua.New(lua.Options{}, inLua...)
	if err != nil {
		return nil, err
	}
	return &Interpreter{Chained: caller.Chain(first, second), Kinds: append(first.Kinds(), second.Kinds()...)}, nil
}

// Report logs the number of kinds and the first of them, if there are any.
func (i *Interpreter) Report(log klog.Logger) {
	if len(i.Kinds) == 0 {
		return
	}
	const most = 10
	var names []string
	for _, gvk := range i.Kinds[:min(most, len(i.Kinds))] {
		names = append(names, gvk.GroupVersion().String()+" "+gvk.Kind)
	}
	if len(i.Kinds) > most {
		names = append(names, "…")
	}
	log.Info("Loaded customizations", "count", len(i.Kinds), "kinds", strings.Join(names, ", "))
}

// mistake returns an error of the command line. It contains the path once.
func mistake(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("--customizations %s: %w", path, err)
}

// read reads a file, or the files of a folder.
func read(path string, each func(file string, text []byte) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return mistake(path, err)
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path)
		if err != nil {
			return mistake(path, err)
		}
		return each(path, text)
	}
	found := false
	err = folderwatch.Files(path, func(file string, text []byte) error {
		found = true
		return each(file, text)
	})
	if wrong, ok := errors.AsType[*folderwatch.FileError](err); ok {
		return mistake(wrong.File, errors.New(wrong.Problem))
	}
	if unreadable, ok := errors.AsType[*fs.PathError](err); ok {
		return mistake(unreadable.Path, err)
	}
	if err == nil && !found {
		err = mistake(path, errors.New("the folder has no .yaml, .yml or .json files"))
	}
	return err
}

// isKarmadas reports whether a file has customizations in Lua. For invalid YAML it returns false:
// the loader for CEL reports the line.
func isKarmadas(file string, text []byte) (bool, error) {
	objects, err := decode(file, text)
	if errors.Is(err, errNoObjects) {
		return false, errors.New("the file has no customizations")
	}
	inLua, inCEL := false, false
	for _, o := range objects {
		inLua = inLua || strings.HasPrefix(o.GetKind(), "ResourceInterpreterCustomization") // or a list of them
		inCEL = inCEL || o.GetKind() == customization.Kind
	}
	if inLua && inCEL {
		return false, errors.New("the file has customizations in CEL and in Lua: put them into two files")
	}
	return inLua, nil
}

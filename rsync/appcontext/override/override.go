// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package override has overrides for AppBuilder.Override of package appcontext: they change a
// manifest for one cluster.
//
//	patch := override.JSONPatch([]byte(`[{"op": "replace", "path": "/spec/replicas", "value": 5}]`))
//	b.App("web").Resource("edge", "c1", deployment).Resource("edge", "c2", deployment).
//		Override("edge", "c2", web, patch)
//
// An override is applied when the context is built. The engine stores and compares the result, so
// Engine.Diff shows the effect of an override.
package override

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spokewire/sdk-go/internal/jsonpatch"
	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// JSONPatch returns an override that applies a JSON patch (RFC 6902). Patch and manifest may be
// JSON or YAML. The result is JSON. A patch may have 10,000 operations, and its copy operations may
// add appcontext.MaxAppCluster bytes.
//
// The override returns an error if the patch is not a list of operations, if a path does not exist,
// or if a test operation fails.
func JSONPatch(patch []byte) appcontext.Override {
	operations, invalid := decode(patch)
	return func(manifest []byte) ([]byte, error) {
		if invalid != nil {
			return nil, invalid
		}
		text, err := jsonOf(manifest)
		if err != nil {
			return nil, err
		}
		out, err := operations.Apply(text, jsonpatch.Options{MaxCopied: appcontext.MaxAppCluster})
		if err != nil {
			return nil, fmt.Errorf("JSON patch: %w", err)
		}
		return out, nil
	}
}

func decode(patch []byte) (jsonpatch.Patch, error) {
	text, err := jsonOf(patch)
	if err != nil {
		return nil, fmt.Errorf("JSON patch: %w", err)
	}
	operations, err := jsonpatch.Decode(text)
	var mismatch *json.UnmarshalTypeError // its text has names of Go types
	if err == nil && operations == nil || errors.As(err, &mismatch) {
		err = errors.New("must be a list of operations")
	}
	if err != nil {
		return nil, fmt.Errorf("JSON patch: %w", err)
	}
	return operations, nil
}

// jsonOf returns a YAML or JSON text as JSON.
func jsonOf(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, nil
	}
	return yamldoc.JSON(text)
}

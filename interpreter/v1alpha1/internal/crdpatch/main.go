// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Command crdpatch adds the formats of the URL and the service of a webhook to generated
// CustomResourceDefinitions. Markers cannot set them, since the type is in another package. A CEL
// rule for the URL would exceed the cost limit of the API server, since the type does not limit the
// length of the URL.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/internal/jsonpatch"
)

const (
	header = "# SPDX-FileCopyrightText: The Spokewire Authors\n# SPDX-License-Identifier: Apache-2.0\n---\n"
	// client is the path of the fields of a webhook's clientConfig.
	client = "/spec/versions/0/schema/openAPIV3Schema/properties/webhooks/items/properties/clientConfig/properties"
	// changes are for https URLs with a host, and without user, query and fragment, for names of a
	// service, which become part of a host name (RFC 1123), and for paths without empty parts,
	// query, fragment and %.
	changes = `[
		{"op": "add", "path": "CLIENT/url/pattern", "value": "^https://[^/?#@]+(/[^?#]*)?$"},
		{"op": "add", "path": "CLIENT/url/maxLength", "value": 2048},
		{"op": "add", "path": "CLIENT/service/properties/name/pattern", "value": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
		{"op": "add", "path": "CLIENT/service/properties/name/maxLength", "value": 63},
		{"op": "add", "path": "CLIENT/service/properties/namespace/pattern", "value": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
		{"op": "add", "path": "CLIENT/service/properties/namespace/maxLength", "value": 63},
		{"op": "add", "path": "CLIENT/service/properties/path/pattern", "value": "^/([^/?#%]+/?)*$"}
	]`
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdpatch:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: crdpatch FOLDER")
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := patch(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func patch(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd, err := yaml.YAMLToJSON(content)
	if err != nil {
		return err
	}
	operations, err := jsonpatch.Decode([]byte(strings.ReplaceAll(changes, "CLIENT", client)))
	if err != nil {
		return err
	}
	if crd, err = operations.Apply(crd, jsonpatch.Options{}); err != nil {
		return err
	}
	out, err := yaml.JSONToYAML(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(header), out...), 0o644)
}

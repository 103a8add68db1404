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

	"sigs.k8s.io/yaml"
)

const (
	header = "# SPDX-FileCopyrightText: The Spokewire Authors\n# SPDX-License-Identifier: Apache-2.0\n---\n"
	// urlPattern matches https URLs with a host, and without user, query and fragment.
	urlPattern = "^https://[^/?#@]+(/[^?#]*)?$"
	urlLength  = 2048
	// labelPattern matches a DNS label (RFC 1123): the names of a service become part of a host
	// name.
	labelPattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	labelLength  = 63
	// pathPattern matches paths without empty parts, query, fragment and %.
	pathPattern = "^/([^/?#%]+/?)*$"
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
	var crd map[string]any
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return err
	}
	client := find(crd, "spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "webhooks", "items",
		"properties", "clientConfig", "properties")
	url, service := find(client, "url"), find(client, "service", "properties")
	name, namespace, path := find(service, "name"), find(service, "namespace"), find(service, "path")
	if url == nil || name == nil || namespace == nil || path == nil {
		return errors.New("clientConfig has no url, or no service with name, namespace and path")
	}
	url["pattern"], url["maxLength"] = urlPattern, urlLength
	for _, label := range []map[string]any{name, namespace} {
		label["pattern"], label["maxLength"] = labelPattern, labelLength
	}
	path["pattern"] = pathPattern
	out, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(header), out...), 0o644)
}

// find returns the object at a path of names and indexes, or nil.
func find(v any, path ...any) map[string]any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	m, _ := v.(map[string]any)
	return m
}

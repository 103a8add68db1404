// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spokewire/sdk-go/dynamicwatcher"
)

// render executes a template. It returns the objects that the template has read, also after an
// error.
func render(
	ctx context.Context, reader client.Reader, namespace, text string,
) (out string, asked []dynamicwatcher.ObjectIdentifier, err error) {
	ask := func(kind, name string) client.ObjectKey {
		asked = append(asked, dynamicwatcher.ObjectIdentifier{
			Version: "v1", Kind: kind, Namespace: namespace, Name: name,
		})
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	t, err := template.New("template").Funcs(template.FuncMap{
		"fromSecret": func(name, key string) (string, error) {
			var s corev1.Secret
			if err := reader.Get(ctx, ask("Secret", name), &s); err != nil {
				return "", err
			}
			return field(s.Data, "Secret", name, key)
		},
		"fromConfigMap": func(name, key string) (string, error) {
			var m corev1.ConfigMap
			if err := reader.Get(ctx, ask("ConfigMap", name), &m); err != nil {
				return "", err
			}
			return field(m.Data, "ConfigMap", name, key)
		},
	}).Parse(text)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	err = t.Execute(&b, nil)
	return b.String(), asked, err
}

func field[T string | []byte](data map[string]T, kind, name, key string) (string, error) {
	value, ok := data[key]
	if !ok {
		return "", fmt.Errorf("the %s %s has no %s", kind, name, key)
	}
	return string(value), nil
}

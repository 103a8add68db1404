// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork_test

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
)

func TestIdentify(t *testing.T) {
	object := func(s string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(s), &obj.Object); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	tests := []struct {
		name string
		obj  *unstructured.Unstructured
		want appliedwork.Key
		err  error
	}{
		{"namespaced", object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`),
			appliedwork.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, nil},
		{"cluster scoped", object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`),
			appliedwork.Key{Kind: "Namespace", Name: "shop"}, nil},
		{"generateName", object(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-"}}`), appliedwork.Key{},
			appliedwork.ErrGenerateName},
		{"no name", object(`{"apiVersion":"v1","kind":"Pod"}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"no kind", object(`{"apiVersion":"v1","metadata":{"name":"x"}}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"no version", object(`{"kind":"Pod","metadata":{"name":"x"}}`), appliedwork.Key{}, appliedwork.ErrInvalidObject},
		{"not decoded", nil, appliedwork.Key{}, appliedwork.ErrInvalidObject},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := appliedwork.Identify(test.obj)
			if !errors.Is(err, test.err) || err == nil && got != test.want {
				t.Errorf("%v, %v, want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}

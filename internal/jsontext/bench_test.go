// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"os"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// BenchmarkDecode compares the package with apimachinery on a Deployment of 18 KB.
func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func([]byte, any) error{
		"jsontext":     jsontext.Decode,
		"apimachinery": func(data []byte, v any) error { return utiljson.Unmarshal(data, v) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(data, &appsv1.Deployment{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMerge changes parts with unique keys in a Deployment of 18 KB.
func BenchmarkMerge(b *testing.B) {
	data, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, change := range map[string]func(*appsv1.Deployment){
		"field":     func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) },
		"container": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "new" },
		"order": func(d *appsv1.Deployment) {
			containers := d.Spec.Template.Spec.Containers
			containers[0], containers[1] = containers[1], containers[0]
		},
		"variable": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "new" },
	} {
		b.Run(name, func(b *testing.B) {
			var d appsv1.Deployment
			if err := jsontext.Decode(data, &d); err != nil {
				b.Fatal(err)
			}
			before := encode(b, d)
			change(&d)
			after := encode(b, d)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jsontext.Merge(data, before, after, reflect.TypeFor[appsv1.Deployment](), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

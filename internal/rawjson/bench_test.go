// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson_test

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/rawjson"
)

// BenchmarkDecode compares with apimachinery on a Deployment of 18 KB.
func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile("../../interpreter/testdata/deployment-18k.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func([]byte, any) error{
		"rawjson":      rawjson.Decode,
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

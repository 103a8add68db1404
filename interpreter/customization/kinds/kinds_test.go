// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"
)

func TestFilesLoad(t *testing.T) {
	if _, err := compile(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkFirstQuestion measures the time and memory that a process spends once.
func BenchmarkFirstQuestion(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := compile(); err != nil {
			b.Fatal(err)
		}
	}
}

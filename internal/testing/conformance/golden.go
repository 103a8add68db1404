// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	_ "embed"
	"fmt"
	"strings"
)

// apiserver has the transcripts of a real kube-apiserver. The end-to-end tests keep them current.
//
//go:embed testdata/apiserver.txt
var apiserver string

// Golden returns the API server's transcripts by the names of their scripts.
func Golden() map[string][]string {
	out := map[string][]string{}
	name := ""
	for line := range strings.Lines(apiserver) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			name = title
			continue
		}
		if line != "" {
			out[name] = append(out[name], line)
		}
	}
	return out
}

// Format writes transcripts in the format of Golden, in the order of All.
func Format(transcripts map[string][]string) string {
	var b strings.Builder
	for _, s := range All {
		fmt.Fprintf(&b, "## %s\n", s.Name)
		for _, line := range transcripts[s.Name] {
			fmt.Fprintln(&b, line)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// TestAnnotations checks that annotations of Helm result in hooks, and annotations of Argo CD in
// waves. The error for an invalid annotation names the file and the annotation.
func TestAnnotations(t *testing.T) {
	for annotations, want := range map[string]string{
		`{}`: `[hook "" wave 0 policies []]`,
		`{helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-weight: "-5"}`:                          `[hook "post-install" wave -5 policies []]`,
		`{helm.sh/hook: pre-install, helm.sh/hook-delete-policy: "before-hook-creation, hook-succeeded"}`: `[hook "pre-install" wave 0 policies [before-hook-creation hook-succeeded]]`,
		`{helm.sh/hook: "pre-upgrade,test"}`:                                                              `[]`,
		`{argocd.argoproj.io/sync-wave: "3", helm.sh/hook-weight: "1"}`:                                   `[hook "" wave 3 policies []]`,
		`{helm.sh/hook: "pre-install,post-install"}`:                                                      "a.yaml: annotation helm.sh/hook: has the hooks pre-install and post-install: only one is possible",
		`{helm.sh/hook: pre-install, helm.sh/hook-weight: "first"}`:                                       `a.yaml: annotation helm.sh/hook-weight: "first": must be a number`,
		`{helm.sh/hook: pre-install, helm.sh/hook-weight: 1}`:                                             "a.yaml: metadata.annotations: values must be strings",
		`{argocd.argoproj.io/sync-wave: "99999999999"}`:                                                   "wave: 99999999999 does not fit into 32 bits",
		`{helm.sh/hook: pre-install, helm.sh/hook-delete-policy: never}`:                                  `deletePolicies: "never"`,
	} {
		files := fstest.MapFS{
			"a.yaml": {Data: []byte("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: " + annotations + "}\n")},
		}
		c, err := build(files, two[0])
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", annotations, err, want)
			}
			continue
		}
		var got []string
		for i := range c.Apps {
			for _, r := range c.Apps[i].Clusters[0].Resources {
				got = append(got, fmt.Sprintf("hook %q wave %d policies %s", r.Hook, r.Wave, r.DeletePolicies))
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %s, want %s", annotations, got, want)
		}
	}
}

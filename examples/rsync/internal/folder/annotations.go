// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// The annotations that Read reads: those of Helm's hooks, and Argo CD's for waves of other
// resources.
const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	policyAnnotation = "helm.sh/hook-delete-policy"
	waveAnnotation   = "argocd.argoproj.io/sync-wave"
)

// resourceOf returns a resource for a manifest, with the hook, the wave and the delete policies of
// its annotations. It returns false for a manifest that has only hooks without an event of the
// engine.
func resourceOf(manifest []byte) (r appcontext.Resource, used bool, err error) {
	r.Manifest = manifest
	annotations, err := annotationsOf(manifest)
	if err != nil {
		return r, false, err
	}
	text, hooked := annotations[hookAnnotation]
	if !hooked {
		r.Wave, err = number(annotations, waveAnnotation)
		return r, true, err
	}
	if r.Hook, err = hookOf(text); err != nil || r.Hook == appcontext.HookNone {
		return r, false, err
	}
	for _, policy := range list(annotations[policyAnnotation]) {
		r.DeletePolicies = append(r.DeletePolicies, appcontext.HookDeletePolicy(policy))
	}
	r.Wave, err = number(annotations, weightAnnotation)
	return r, true, err
}

// hookOf returns the only hook in a list that the engine supports, or HookNone.
func hookOf(text string) (appcontext.Hook, error) {
	found := appcontext.HookNone
	for _, name := range list(text) {
		hook := appcontext.Hook(name)
		switch {
		case !slices.Contains(appcontext.Hooks(), hook):
		case found != appcontext.HookNone:
			return "", fmt.Errorf("annotation %s: has the hooks %s and %s: only one is possible", hookAnnotation,
				found, hook)
		default:
			found = hook
		}
	}
	return found, nil
}

// annotationsOf returns the annotations of a manifest. It returns nil for invalid YAML, which the
// builder rejects.
func annotationsOf(manifest []byte) (map[string]string, error) {
	var content struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	text, err := yamldoc.JSON(manifest)
	if err != nil {
		return nil, nil //nolint:nilerr // the builder reports it
	}
	if json.Unmarshal(text, &content) != nil {
		return nil, errors.New("metadata.annotations: values must be strings: write numbers in quotes")
	}
	return content.Metadata.Annotations, nil
}

func number(annotations map[string]string, name string) (int, error) {
	text, ok := annotations[name]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %q: must be a number", name, text)
	}
	return n, nil
}

// list splits a text at commas.
func list(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/internal/command"
	"github.com/spokewire/sdk-go/examples/internal/command/commandtest"
)

func TestNeedsCluster(t *testing.T) {
	commandtest.NeedsCluster(t, "agent", "install the CRD of AppliedWork", func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, append([]string{"--cluster", "c", "--broker", "mqtt://127.0.0.1:1"}, args...), stdout, stderr)
	})
}

// TestRefusesBroker: what is wrong about the broker is said before anything else, also without a kubeconfig.
func TestRefusesBroker(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--broker", "tcp://b"}, `--broker: MQTT options: BrokerURL "tcp://b"`},
		{[]string{"--broker", "mqtts://b", "--broker-ca", "main.go"}, "--broker-ca: main.go holds no certificate in PEM"},
		{[]string{"--broker", "mqtts://b", "--broker-cert", "main.go"}, "--broker-cert and --broker-key go together"},
		{[]string{"--broker", "mqtt://b", "--password-file", "missing"}, "--password-file: open missing"},
		{[]string{"--broker", "mqtt://b", "--cluster", "A B"}, `--cluster "A B" is no name of a cluster`},
	} {
		var stdout, stderr strings.Builder
		status := run(t.Context(), append([]string{"--cluster", "c"}, tt.args...), &stdout, &stderr)
		if status != command.Misuse || !strings.HasPrefix(stderr.String(), "agent: "+tt.want) || stdout.Len() > 0 {
			t.Errorf("%q: %d, %q, want %q", tt.args, status, stderr.String(), tt.want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		event controller.Event
		want  string
	}{
		{controller.Event{Work: "w", Generation: 2, Changed: true}, "applied   w generation 2"},
		{controller.Event{Work: "w", Generation: 2}, ""},
		{controller.Event{Work: "w", Generation: 2, Err: errors.New("refused")}, "not yet   w generation 2: refused"},
		{controller.Event{Work: "w", Generation: 2, Deleted: true, Changed: true}, "removed   w generation 2: what it brought and is to go with it is gone"},
		{controller.Event{Work: "w", Err: errors.New("of another hub")}, "not yet   w, which the hub does not have: of another hub"},
	} {
		var out strings.Builder
		printTo(&out)(tt.event)
		if got := strings.TrimSuffix(out.String(), "\n"); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestTogether: when one part ends, so do the others, and all that went wrong is said.
func TestTogether(t *testing.T) {
	failed := errors.New("failed")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := together(t.Context(), waits, func(context.Context) error { return failed }, waits); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// TestWorks: all samples can be on one cluster together, so no two have the same object.
func TestWorks(t *testing.T) {
	files, err := filepath.Glob("works/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	owners := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workv1.ManifestWork
		if err := yaml.UnmarshalStrict(data, &w); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, m := range w.Spec.Workload.Manifests {
			var obj metav1.PartialObjectMetadata
			if err := yaml.Unmarshal(m.Raw, &obj); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			key := fmt.Sprintf("%s %s/%s", obj.GroupVersionKind(), obj.Namespace, obj.Name)
			if owner := owners[key]; owner != "" {
				t.Errorf("%s: %s is in %s as well", file, key, owner)
			}
			owners[key] = file
		}
	}
}

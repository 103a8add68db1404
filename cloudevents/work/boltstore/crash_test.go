// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package boltstore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
)

// crashEnv is the environment variable that turns this test binary into a program that writes works
// until it is killed. Its value is the path of the file.
const crashEnv = "SPOKEWIRE_CRASH_STORE"

const (
	writers = 4
	cluster = "cluster1"
)

// TestKilled repeatedly kills a process that writes works, and checks that all acknowledged writes
// are in the file. Each writer increments a label of one work, and creates and deletes another work
// at every tenth step.
func TestKilled(t *testing.T) {
	if path := os.Getenv(crashEnv); path != "" {
		writeUntilKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "works.db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	acknowledged := map[int]int{}
	total := 0
	for range 8 {
		total += runAndKill(t, path, acknowledged, random.IntN(400))
		judge(t, path, acknowledged)
	}
	t.Logf("%d acknowledged steps", total)
}

// runAndKill starts the program, and kills it at a random moment after some steps.
func runAndKill(t *testing.T, path string, acknowledged map[int]int, steps int) int {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	program.Env = append(os.Environ(), crashEnv+"="+path)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	count := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var writer, step int
		if _, err := fmt.Sscanf(lines.Text(), "step %d %d", &writer, &step); err != nil {
			continue // output of package testing
		}
		acknowledged[writer] = max(acknowledged[writer], step)
		if count++; count == steps+1 {
			_ = program.Process.Kill() // then read the rest: steps before the kill count
		}
	}
	_ = program.Wait() // the error is that of the kill
	if count <= steps {
		t.Fatalf("the program ended by itself after %d steps", count)
	}
	return count
}

func judge(t *testing.T, path string, acknowledged map[int]int) {
	t.Helper()
	works, store := openSource(t, path)
	if err := store.Close(); err != nil { // the source has loaded the store
		t.Fatal(err)
	}
	for writer, step := range acknowledged {
		if got := stepOf(t, works, writer); got < step || got > step+1 {
			t.Errorf("writer %d is at step %d, but %d was acknowledged", writer, got, step)
		}
		for deleted := 10; deleted <= step; deleted += 10 {
			obj, err := works.Get(t.Context(), doomed(writer, deleted), metav1.GetOptions{})
			if err != nil || obj.DeletionTimestamp == nil {
				t.Errorf("the deletion in step %d of writer %d is lost: %v", deleted, writer, err)
			}
		}
	}
}

// openSource opens the file and returns the works of a source on it. The source is never started.
func openSource(t *testing.T, path string) (worktyped.ManifestWorkInterface, *boltstore.Store) {
	t.Helper()
	store, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return source.Clientset().WorkV1().ManifestWorks(cluster), store
}

func name(writer int) string           { return fmt.Sprintf("w%d", writer) }
func doomed(writer, step int) string   { return fmt.Sprintf("doomed-%d-%d", writer, step) }
func label(step int) map[string]string { return map[string]string{"step": strconv.Itoa(step)} }

func stepOf(t *testing.T, works worktyped.ManifestWorkInterface, writer int) int {
	t.Helper()
	obj, err := works.Get(t.Context(), name(writer), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	step, err := strconv.Atoi(obj.Labels["step"])
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// writeUntilKilled is the program. It stops after a minute if it is not killed.
func writeUntilKilled(t *testing.T, path string) {
	works, _ := openSource(t, path) // closed by the kill
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for step := stepOf(t, works, writer) + 1; ctx.Err() == nil; step++ {
				if err := write(ctx, works, writer, step); err != nil {
					t.Errorf("step %d of writer %d: %v", step, writer, err)
					return
				}
				fmt.Printf("step %d %d\n", writer, step)
			}
		})
	}
	group.Wait()
}

func write(ctx context.Context, works worktyped.ManifestWorkInterface, writer, step int) error {
	if step%10 == 0 {
		obj := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: doomed(writer, step)}, Spec: spec()}
		if _, err := works.Create(ctx, obj, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err // it may exist: the step was done in part before the crash
		}
		if err := works.Delete(ctx, obj.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	obj, err := works.Get(ctx, name(writer), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		obj = &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name(writer), Labels: label(step)}, Spec: spec()}
		_, err = works.Create(ctx, obj, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	obj.Labels = label(step)
	_, err = works.Update(ctx, obj, metav1.UpdateOptions{})
	return err
}

func spec() workv1.ManifestWorkSpec {
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{
		RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)},
	}}}}
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/etcdstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// The environment of a writer in a separate process: this test binary, started again. At the start
// or the end of a transaction it sends a signal to itself.
const (
	writerEndpoint = "SPOKEWIRE_ETCDSTORE_ENDPOINT"
	writerStep     = "SPOKEWIRE_ETCDSTORE_STEP"  // the number of the transaction
	writerAfter    = "SPOKEWIRE_ETCDSTORE_AFTER" // "true": after its result has arrived
	writerSignal   = "SPOKEWIRE_ETCDSTORE_SIGNAL"
)

// What the writer prints.
const (
	printedAccepted = "accepted"
	printedRefused  = "refused"
)

// hugeBatch has several parts and records of several chunks. It changes old records.
func hugeBatch() []work.Change {
	batch := append(records(300, 3000), work.Change{Key: "gone"}, set("kept", "new"))
	for i := range 3 {
		batch = append(batch, set(fmt.Sprint("large", i), strings.Repeat(strconv.Itoa(i), 700<<10)))
	}
	return batch
}

// leaderOne is the condition of the writer.
var leaderOne = set("writer", "one")

func writerProcess() int {
	step, _ := strconv.Atoi(os.Getenv(writerStep))
	signal, _ := strconv.Atoi(os.Getenv(writerSignal))
	after := os.Getenv(writerAfter) == "true"
	number, counting := 0, false
	stop := func() {
		_ = syscall.Kill(os.Getpid(), syscall.Signal(signal))
		time.Sleep(100 * time.Millisecond) // the signal is delivered to any thread
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Getenv(writerEndpoint)}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			o ...grpc.CallOption,
		) error {
			hit := false
			if counting && method == "/etcdserverpb.KV/Txn" {
				number++
				hit = number == step
			}
			if hit && !after {
				stop()
			}
			err := invoke(ctx, method, in, out, conn, o...)
			if hit && after {
				stop()
			}
			return err
		})},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// The test removes the parts before a timeout of this writer ends.
	s, err := etcdstore.Open(context.Background(), etcdstore.Options{Client: client, Timeout: time.Minute})
	if err == nil {
		counting = true
		err = s.ApplyIf(context.Background(), leaderOne, hugeBatch())
	}
	switch {
	case errors.Is(err, work.ErrCondition):
		fmt.Println(printedRefused)
	case err != nil:
		fmt.Println(err)
		return 1
	default:
		fmt.Println(printedAccepted, number)
	}
	return 0
}

// writer is a running writer.
type writer struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func startWriter(t *testing.T, url string, step int, after bool, signal syscall.Signal) *writer {
	t.Helper()
	w := &writer{cmd: exec.Command(os.Args[0])}
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	w.cmd.Env = append(os.Environ(), writerEndpoint+"="+url, writerStep+"="+strconv.Itoa(step),
		writerAfter+"="+strconv.FormatBool(after), writerSignal+"="+strconv.Itoa(int(signal)))
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// isStopped reports whether a SIGSTOP has stopped the writer.
func (w *writer) isStopped() error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.cmd.Process.Pid))
	if err != nil {
		return err
	}
	if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
		return fmt.Errorf("its state is %.1s", state)
	}
	return nil
}

// scene returns the batch before the writer's batch, and the contents of the store without and with
// the writer's batch.
func scene() (before []work.Change, without, with map[string]string) {
	before = []work.Change{leaderOne, set("gone", "old"), set("kept", "old"), set("large0", strings.Repeat("z", 500<<10))}
	without = map[string]string{}
	for _, c := range before {
		without[c.Key] = short(c.Value)
	}
	with = map[string]string{"writer": "one"}
	for _, c := range hugeBatch() {
		if c.Value != nil {
			with[c.Key] = short(c.Value)
		}
	}
	return before, without, with
}

// steps returns the number of transactions of the writer's batch.
func steps(t *testing.T) int {
	t.Helper()
	etcd := startServer(t, "--unsafe-no-fsync")
	before, _, with := scene()
	s := etcd.open(quick)
	write(t, s, before...)
	w := startWriter(t, etcd.url, 0, false, syscall.SIGKILL)
	if err := w.cmd.Wait(); err != nil {
		t.Fatalf("the writer: %v: %s", err, &w.out)
	}
	var n int
	if _, err := fmt.Sscanf(w.out.String(), printedAccepted+" %d", &n); err != nil {
		t.Fatalf("the writer printed %s", &w.out)
	}
	if diff := cmp.Diff(with, load(t, s)); diff != "" {
		t.Fatalf("content (-want +got):\n%s", diff)
	}
	return n
}

// TestWriterDiesAtEachStep: a writer is killed before and after each transaction of a batch. Readers
// and followers see the whole batch or nothing of it, other writers continue, and nothing is left of
// the batch.
func TestWriterDiesAtEachStep(t *testing.T) {
	t.Parallel()
	n := steps(t)
	etcd := startServer(t, "--unsafe-no-fsync")
	admin := etcd.admin()
	committed := 0
	for step := 1; step <= n; step++ {
		for _, after := range []bool{false, true} {
			s := etcd.open(quick)
			before, without, with := scene()
			write(t, s, clear(load(t, s))...)
			write(t, s, before...)
			f := follow(t, s, func(content map[string]string) error {
				delete(content, "next")
				if !cmp.Equal(content, without) && !cmp.Equal(content, with) {
					return fmt.Errorf("step %d: it has a part of a batch:\n%s", step, cmp.Diff(with, content))
				}
				return nil
			})
			w := startWriter(t, etcd.url, step, after, syscall.SIGKILL)
			if err := w.cmd.Wait(); err == nil {
				t.Fatalf("the writer was not killed at step %d: %s", step, &w.out)
			}
			got := load(t, s)
			switch {
			case cmp.Equal(got, with):
				committed++
			case !cmp.Equal(got, without):
				t.Fatalf("step %d, after %t: the store has a part of the batch:\n%s", step, after, cmp.Diff(with, got))
			}
			if (step%2 == 0) != after { // otherwise cleanUp must complete it
				write(t, s, set("next", "1"))
				write(t, s, work.Change{Key: "next"})
			}
			e2etest.Eventually(t, "cleanup", func() error {
				if keys := left(t, admin, etcdstore.DefaultPrefix); len(keys) > 0 {
					return fmt.Errorf("etcd still has %q", keys)
				}
				return nil
			})
			if diff := cmp.Diff(got, load(t, s)); diff != "" {
				t.Fatalf("step %d, after %t: the content changed (-before +after):\n%s", step, after, diff)
			}
			f.agrees(t, s)
			_ = s.Close()
		}
	}
	t.Logf("%d steps, the batch was committed in %d of %d crashes", n, committed, 2*n)
	if committed == 0 || committed == 2*n {
		t.Error("no crash was before or after the commit")
	}
}

// clear returns the batch that removes all records.
func clear(content map[string]string) []work.Change {
	batch := []work.Change{{Key: "missing"}}
	for key := range content {
		batch = append(batch, work.Change{Key: key})
	}
	return batch
}

// TestSuspendedLeaderIsRefused: a leader is suspended before each transaction of a batch, another
// replica becomes the leader, and the first one continues. Its batch is refused, unless it was
// committed before. Then the new leader has received it.
func TestSuspendedLeaderIsRefused(t *testing.T) {
	t.Parallel()
	n := steps(t)
	etcd := startServer(t, "--unsafe-no-fsync")
	admin := etcd.admin()
	refused := 0
	for step := 1; step <= n; step++ {
		for _, cleanup := range []time.Duration{2 * time.Second, time.Minute} { // its parts are removed meanwhile, or not
			s := etcd.open(etcdstore.Options{Timeout: 2 * time.Second, CleanupInterval: cleanup})
			before, _, _ := scene()
			write(t, s, clear(load(t, s))...)
			write(t, s, before...)
			w := startWriter(t, etcd.url, step, false, syscall.SIGSTOP)
			e2etest.Eventually(t, "suspend", w.isStopped)
			write(t, s, set("writer", "two"), set("own", "1"))
			content := load(t, s)
			if cleanup < time.Minute {
				e2etest.Eventually(t, "cleanup", func() error {
					if keys := left(t, admin, etcdstore.DefaultPrefix); len(keys) > 0 {
						return fmt.Errorf("etcd still has %q", keys)
					}
					return nil
				})
			}
			if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = w.cmd.Wait()
			accepted := strings.HasPrefix(w.out.String(), printedAccepted)
			if !accepted {
				refused++
			}
			if _, had := content["large1"]; had != accepted {
				t.Errorf("step %d: the writer printed %q, and the new leader saw: %t", step, &w.out, had)
			}
			if diff := cmp.Diff(content, load(t, s)); diff != "" {
				t.Fatalf("step %d: the former leader changed the store (-before +after):\n%s", step, diff)
			}
			if keys := left(t, admin, etcdstore.DefaultPrefix); len(keys) > 0 && accepted {
				t.Errorf("step %d: etcd has %q", step, keys)
			}
			_ = s.Close()
		}
	}
	t.Logf("%d steps, refused at %d of %d", n, refused, 2*n)
	if refused == 0 || refused == 2*n {
		t.Error("no suspension was before or after the commit")
	}
}

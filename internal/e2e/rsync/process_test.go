// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/etcdstore"
	"github.com/spokewire/sdk-go/rsync/store/pgstore"
)

// The environment of an engine in a separate process: this test binary, started again.
const (
	engineName      = "SPOKEWIRE_RSYNC_ENGINE"
	engineEndpoints = "SPOKEWIRE_RSYNC_ENDPOINTS"
	engineClusters  = "SPOKEWIRE_RSYNC_CLUSTERS"
	engineUnaware   = "SPOKEWIRE_RSYNC_UNAWARE" // the engine notices the end of its lease only by its writes
)

func TestMain(m *testing.M) {
	if name := os.Getenv(engineName); name != "" {
		if err := engineProcess(name); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(kube.Main(m))
}

// engineProcess runs an engine until it is interrupted.
func engineProcess(name string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	s, closeStore, err := engineStore(ctx, strings.Split(os.Getenv(engineEndpoints), ","))
	if err != nil {
		return err
	}
	defer func() { _ = closeStore() }()
	clusters := connector.Func(func(_ context.Context, provider, cluster string) (connector.Connector, error) {
		return folder(filepath.Join(os.Getenv(engineClusters), provider+"+"+cluster)), nil
	})
	options := rsync.Options{Name: name, LeaseTTL: ttl, HistoryLimit: 100_000}
	unaware := os.Getenv(engineUnaware) != ""
	if unaware {
		options.Clock = lateClock{}
	}
	engine, err := rsync.New(&told{Store: s, unaware: unaware}, clusters, options)
	if err != nil {
		return err
	}
	return engine.Start(ctx)
}

// engineStore connects to the servers of a store.
func engineStore(ctx context.Context, endpoints []string) (s store.Store, closeStore func() error, err error) {
	if strings.HasPrefix(endpoints[0], "postgres://") {
		db, err := pgstore.Open(ctx, pgstore.Options{ConnString: endpoints[0], Timeout: 2 * time.Second})
		if err != nil {
			return nil, nil, err
		}
		return db, db.Close, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		return nil, nil, err
	}
	s, err = etcdstore.New(client, etcdstore.Options{Timeout: 2 * time.Second})
	return s, client.Close, err
}

// told is a store that prints its refused writes, and the writes with an unknown result, on
// standard output.
type told struct {
	store.Store
	unaware bool
}

// Watch hides the keys of engines from an unaware engine, so it does not see the end of its own
// key.
func (s *told) Watch(ctx context.Context, prefix string, from int64) <-chan store.Watched {
	if s.unaware && prefix == "/rsync/engine/" {
		prefix = "/nothing/"
	}
	return s.Store.Watch(ctx, prefix, from)
}

// lateClock is a clock that renews a lease too late.
type lateClock struct{ clock.RealClock }

func (c lateClock) NewTimer(d time.Duration) clock.Timer {
	if d == ttl/3 {
		d = 10 * ttl
	}
	return c.RealClock.NewTimer(d)
}

func (s *told) Txn(ctx context.Context, compares []store.Compare, ops []store.Op) (store.TxnResult, error) {
	result, err := s.Store.Txn(ctx, compares, ops)
	switch fenced := len(compares) > 1 && compares[0].Created; {
	case fenced && err != nil:
		fmt.Println("unknown", ops[0].Key)
	case fenced && !result.Succeeded && result.Current[0].CreateRevision != compares[0].Revision:
		fmt.Println("fenced", ops[0].Key)
	}
	return result, err
}

// folder is a cluster that keeps each object in a file, so several processes can reach it.
type folder string

const folderDelay = 40 * time.Millisecond

func (f folder) file(o appcontext.Object) string { return filepath.Join(string(f), o.Kind+"-"+o.Name) }

func (f folder) Apply(ctx context.Context, batch connector.Batch) error {
	select {
	case <-time.After(folderDelay):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, r := range batch.Resources {
		if err := os.WriteFile(f.file(r.Object), r.Manifest, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (f folder) Delete(_ context.Context, batch connector.Batch) error {
	for _, r := range batch.Resources {
		if err := os.Remove(f.file(r.Object)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f folder) Get(_ context.Context, batch connector.Batch) ([]connector.State, error) {
	out := make([]connector.State, len(batch.Resources))
	for i, r := range batch.Resources {
		_, err := os.Stat(f.file(r.Object))
		out[i] = connector.State{Object: r.Object, Exists: err == nil, Ready: err == nil}
	}
	return out, nil
}

func (folder) Probe(ctx context.Context) error { return ctx.Err() }
func (folder) Close() error                    { return nil }

// process is an engine in a separate process.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	read sync.WaitGroup

	mu              sync.Mutex
	fenced, unknown int
}

func startProcess(t *testing.T, name, clusters string, endpoints []string, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), env...), engineName+"="+name, engineClusters+"="+clusters, engineEndpoints+"="+
		strings.Join(endpoints, ","))
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			word, _, _ := strings.Cut(lines.Text(), " ")
			p.mu.Lock()
			switch word {
			case "fenced":
				p.fenced++
			case "unknown":
				p.unknown++
			}
			p.mu.Unlock()
		}
	})
	t.Cleanup(p.kill)
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("signal %s: %v", s, err)
	}
}

// kill ends the process with SIGKILL, which also ends a frozen process. It can be called twice.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		p.read.Wait()
		_ = p.cmd.Wait() // killed, which is an error
	}
}

// late returns the number of writes that were refused after the end of the lease, and the number of
// writes with an unknown result.
func (p *process) late() (fenced, unknown int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fenced, p.unknown
}

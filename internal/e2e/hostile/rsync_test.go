// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spokewire/sdk-go/internal/testing/h2test"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// contexts returns the app contexts that a hostile client creates, applies and deletes.
func contexts() map[string]func() *rsyncv1.AppContext {
	type appContext = *rsyncv1.AppContext
	one := func(manifest string) *rsyncv1.AppContext { return rsyncContext("evil", 1, 1, 1, manifest) }
	small := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil","namespace":"x"}}`
	named := func(id string) *rsyncv1.AppContext { return rsyncContext(id, 1, 1, 1, small) }
	cycle := rsyncContext("evil", 3, 1, 1, small)
	for i, app := range cycle.Apps {
		app.DependsOn = []*rsyncv1.Dependency{{App: cycle.Apps[(i+1)%len(cycle.Apps)].Name}}
	}
	manyApps := func() appContext {
		out := &rsyncv1.AppContext{Id: "evil"}
		for i := range 200_000 {
			out.Apps = append(out.Apps, &rsyncv1.App{Name: fmt.Sprint(i)})
		}
		return out
	}
	longName := func() appContext {
		out := rsyncContext("evil", 1, 1, 10_000, "")
		out.Apps[0].Name = strings.Repeat("x", 10<<20)
		return out
	}
	return map[string]func() appContext{
		"8,000,000 empty resources": func() appContext {
			cluster := &rsyncv1.Cluster{Resources: slices.Repeat([]*rsyncv1.Resource{{}}, 8_000_000)}
			return &rsyncv1.AppContext{Apps: []*rsyncv1.App{{Clusters: []*rsyncv1.Cluster{cluster}}}}
		},
		"8,000,000 empty apps": func() appContext {
			return &rsyncv1.AppContext{Apps: slices.Repeat([]*rsyncv1.App{{}},
				8_000_000)}
		},
		"200,000 apps":          manyApps,
		"a long name of many":   longName,
		"nothing":               func() appContext { return &rsyncv1.AppContext{} },
		"no apps":               func() appContext { return &rsyncv1.AppContext{Id: "evil"} },
		"an empty ID":           func() appContext { return named("") },
		"a path for an ID":      func() appContext { return named("../../rsync.db") },
		"a long ID":             func() appContext { return named(strings.Repeat("x", 1<<20)) },
		"a zero byte in the ID": func() appContext { return named("evil\x00") },
		"apps in a circle":      func() appContext { return cycle },
		"100,000 objects":       func() appContext { return rsyncContext("evil", 1, 1, 100_000, small) },
		"10,000 apps":           func() appContext { return rsyncContext("evil", 10_000, 1, 1, small) },
		"10,000 clusters":       func() appContext { return rsyncContext("evil", 1, 10_000, 1, small) },
		"a manifest of 30 MiB": func() appContext {
			return one(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil"},"data":{"a":"` +
				strings.Repeat("x", 30<<20) + `"}}`)
		},
		"a manifest of aliases": func() appContext {
			return one("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil, namespace: x}\n" + aliases(9, 10))
		},
		"a deep manifest": func() appContext {
			return one(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil"},"x":` + strings.Repeat("[", 1<<20) +
				strings.Repeat("]", 1<<20) + "}")
		},
		"a manifest with keys": func() appContext {
			return one(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil"},"data":{"a":"b"` +
				strings.Repeat(`,"a":"b"`, 1<<20) + "}}")
		},
		"a manifest of zeros": func() appContext { return one(strings.Repeat("\x00", 1<<20)) },
		"a manifest that is cut": func() appContext {
			return one(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil`)
		},
	}
}

// rsyncContext returns a context with objects for each cluster of each app.
func rsyncContext(id string, apps, clusters, objects int, manifest string) *rsyncv1.AppContext {
	out := &rsyncv1.AppContext{Id: id}
	for a := range apps {
		app := &rsyncv1.App{Name: fmt.Sprint("app-", a)}
		for c := range clusters {
			cluster := &rsyncv1.Cluster{Id: &rsyncv1.ClusterID{Provider: "fake", Name: fmt.Sprint("cluster", c+1)}}
			for o := range objects {
				cluster.Resources = append(cluster.Resources, &rsyncv1.Resource{
					Object:   &rsyncv1.Object{Kind: "ConfigMap", Namespace: "x", Name: fmt.Sprint("evil-", o)},
					Manifest: []byte(manifest),
				})
			}
			app.Clusters = append(app.Clusters, cluster)
		}
		out.Apps = append(out.Apps, app)
	}
	return out
}

// largeContext returns a context that is almost as large as the limit.
func largeContext() *rsyncv1.AppContext {
	return rsyncContext("large", 1, 2, 1,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil-0","namespace":"x"},"data":{"a":"`+
			strings.Repeat("x", 15<<20)+`"}}`)
}

// rsyncCalls returns calls of a hostile client. Each is made many times without waiting for the
// responses.
func rsyncCalls(engine rsyncv1.EngineClient) map[string]func(context.Context) error {
	watch := func(ctx context.Context, revision int64) error {
		stream, err := engine.Watch(ctx, &rsyncv1.WatchRequest{Id: "honest", FromRevision: revision})
		if err == nil {
			<-ctx.Done() // the stream is not read
			err = stream.CloseSend()
		}
		return err
	}
	taken := rsyncContext("evil", 1, 4, 1,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil"},"data":{"a":"`+strings.Repeat("x", 1<<19)+`"}}`)
	large := largeContext()
	return map[string]func(context.Context) error{
		"watches that are not read": func(ctx context.Context) error { return watch(ctx, 0) },
		"watches of the future":     func(ctx context.Context) error { return watch(ctx, math.MaxInt64) },
		"watches of the past":       func(ctx context.Context) error { return watch(ctx, math.MinInt64) },
		"waits without end": func(ctx context.Context) error {
			_, err := engine.Wait(ctx, &rsyncv1.WaitRequest{Ref: &rsyncv1.EventRef{Id: "honest", Seq: math.MaxUint64}})
			return err
		},
		"an event that does not exist": func(ctx context.Context) error {
			_, err := engine.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "honest", Event: strings.Repeat("x", 1<<20)})
			return err
		},
		"an update from nowhere": func(ctx context.Context) error {
			_, err := engine.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: "honest", FromId: "nowhere", Event: "Update"})
			return err
		},
		"lists": func(ctx context.Context) error {
			stream, err := engine.List(ctx, &rsyncv1.ListRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"calls that are taken back": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err := engine.GetStatus(ctx, &rsyncv1.GetStatusRequest{Id: "honest"})
			return err
		},
		"large creates": func(ctx context.Context) error {
			_, err := engine.Create(ctx, &rsyncv1.CreateRequest{AppContext: large})
			return err
		},
		"large creates that are taken back": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			_, err := engine.Create(ctx, &rsyncv1.CreateRequest{AppContext: large})
			return err
		},
		"reads of a large context": func(ctx context.Context) error {
			_, err := engine.GetAppContext(ctx, &rsyncv1.GetAppContextRequest{Id: "large"}, grpc.MaxCallRecvMsgSize(64<<20))
			return err
		},
		"creates that are taken back": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, err := engine.Create(ctx, &rsyncv1.CreateRequest{AppContext: taken})
			return err
		},
	}
}

// TestRsync: no context and no client of an engine ends the engine, or blocks other clients.
func TestRsync(t *testing.T) {
	v := start(t, "rsync", "serve", "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "rsync.db"), "--fake",
		"3")
	addr := v.after(`"Started serving an rsync engine" address=`)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	honest, err := rsyncgrpc.NewClient(addr, rsyncgrpc.ClientOptions{Insecure: true, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn,
			error) {
			return dialer.DialContext(ctx, "tcp", addr)
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer honest.Close()
	b := appcontext.NewBuilder("honest")
	b.App("main").Resource("fake", "cluster1",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}}`))
	app, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := honest.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	event := honest.Instantiate
	serve := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		ref, err := event(ctx, "honest")
		if err == nil {
			_, err = honest.Wait(ctx, ref)
		}
		event = honest.Read
		return err
	}
	attacks, err := rsyncAttacks(addr)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range attacks {
		attacks[i].run = func(t *testing.T) { apart(t, addr, a.name) }
	}
	v.withstand(attacks, serve)
}

// attackVariable makes a process of this test an attacker. Its value is the address of a server, a
// space, and the name of an attack.
const attackVariable = "SPOKEWIRE_HOSTILE_ATTACK"

// apart runs an attack in a separate process on one processor: clients on other machines would not
// use the server's processors.
func apart(t *testing.T, addr, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), attackVariable+"="+addr+" "+name)
	var output bytes.Buffer
	cmd.Stderr = &output
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and the process inherits its processor
		var one unix.CPUSet
		one.Set(runtime.NumCPU() - 1)
		_ = unix.SchedSetaffinity(0, &one)
		started <- cmd.Start()
	}()
	if err := <-started; err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("attack: %v: %s", err, &output)
	}
}

// runAttack runs the attack of an attacker's process.
func runAttack(spec string) error {
	addr, name, _ := strings.Cut(spec, " ")
	if run := tlsAttacks()[name]; run != nil {
		config, err := clientConfig(os.Getenv(certsVariable), "h2", "http/1.1")
		if err != nil {
			return err
		}
		return run(addr, config)
	}
	attacks, err := rsyncAttacks(addr)
	if err != nil {
		return err
	}
	for _, a := range attacks {
		if a.name == name {
			a.run(nil)
			return nil
		}
	}
	return fmt.Errorf("there is no attack %q", name)
}

func rsyncAttacks(addr string) ([]attack, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	evil := rsyncv1.NewEngineClient(conn)
	var attacks []attack
	for name, build := range contexts() {
		attacks = append(attacks, attack{name, func(*testing.T) {
			c := build()
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			if _, err := evil.Create(ctx, &rsyncv1.CreateRequest{AppContext: c}); err != nil {
				return // it is refused
			}
			_, _ = evil.Enqueue(ctx, &rsyncv1.EnqueueRequest{Id: c.Id, Event: "Instantiate"})
			time.Sleep(time.Second)
			_, _ = evil.Stop(ctx, &rsyncv1.StopRequest{Id: c.Id})
			_, _ = evil.Delete(ctx, &rsyncv1.DeleteRequest{Id: c.Id})
		}})
	}
	for name, call := range rsyncCalls(evil) {
		attacks = append(attacks, attack{name, func(*testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			parallel := 100
			if strings.Contains(name, "large") {
				parallel = 8 // limits the memory of the client
				_, _ = evil.Create(ctx, &rsyncv1.CreateRequest{AppContext: largeContext()})
			}
			for range parallel {
				go func() {
					for ctx.Err() == nil {
						_ = call(ctx)
						time.Sleep(20 * time.Millisecond) // the client needs the same processors
					}
				}()
			}
			<-ctx.Done()
		}})
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, request := range map[string]string{
		"silent connections": "",
		"HTTP/1":             "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"no HTTP/2":          strings.Repeat("\x00\xff", 10_000),
		"a preface alone":    preface,
		"a long frame":       preface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 1<<20),
		"pings":              preface + settings + strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", 10_000),
		"settings":           preface + strings.Repeat(settings, 10_000),
		"header blocks": preface + settings + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82" +
			strings.Repeat("\x00\x00\x01\x09\x00\x00\x00\x00\x01\x82", 50_000),
		"streams that are reset": preface + settings + resets(5000),
	} {
		attacks = append(attacks, attack{name, func(*testing.T) { occupy(addr, request, 100, 2*time.Second) }})
	}
	for name, header := range map[string]string{
		"long headers": h2test.LongCall(create, 1, strings.Repeat("x", 1<<20)),
		"many headers": h2test.LongCall(create, 5000, "x"),
	} {
		attacks = append(attacks,
			attack{name, func(*testing.T) { reconnect(addr, h2test.Preface+header, 100, 3*time.Second) }})
	}
	// These attacks open more connections than the server allows.
	large := h2test.Frame(h2test.Data, 0, h2test.Stream(0), "\x00\x02\x00\x00\x00") +
		strings.Repeat(h2test.Frame(h2test.Data, 0, h2test.Stream(0), strings.Repeat("x", 10_000)), 6)
	for name, request := range map[string]string{
		"more silent connections than there may be": "",
		"calls with many fields":                    h2test.Preface + h2test.Calls(create, 100, 105),
		"calls with too many fields":                h2test.Preface + h2test.Calls(create, 100, 900),
		"calls without bodies":                      h2test.Preface + h2test.Calls(create, 100, 0),
		"many small unfinished calls":               h2test.Preface + h2test.Calls(create, 1, 0) + large,
	} {
		attacks = append(attacks, attack{name, func(*testing.T) { occupy(addr, request, 1200, time.Second) }})
	}
	return attacks, nil
}

const create = "/rsync.v1.Engine/Create"

// reconnect sends a request on a number of connections, and connects again when the server closes one.
func reconnect(addr, request string, count int, during time.Duration) {
	end := time.Now().Add(during)
	var clients sync.WaitGroup
	for range count {
		clients.Go(func() {
			for time.Now().Before(end) {
				conn, err := net.DialTimeout("tcp", addr, time.Second)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(end)
				_, _ = io.WriteString(conn, request)
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
		})
	}
	clients.Wait()
}

// resets returns HTTP/2 frames that open n streams, and reset each.
func resets(n int) string {
	var out strings.Builder
	for i := range n {
		id := uint32(2*i + 1)
		stream := string([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)})
		out.WriteString("\x00\x00\x03\x01\x04" + stream + "\x83\x86\x84") // POST http /
		out.WriteString("\x00\x00\x04\x03\x00" + stream + "\x00\x00\x00\x08")
	}
	return out.String()
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/pgstore"
	"github.com/spokewire/sdk-go/internal/testing/postgres"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

// leaderEnv is the environment variable that makes this test binary a program that leads and writes
// until it is killed. Its value is the connection string.
const leaderEnv = "SPOKEWIRE_TEST_LEADER"

// TestFrozenLeader: a process is stopped at random moments, also in the middle of a write. Another
// process becomes the leader meanwhile. The stopped process blocks no write, and when it continues,
// the batch of the new leader is followed by no batch of the stopped one.
func TestFrozenLeader(t *testing.T) {
	if connString := os.Getenv(leaderEnv); connString != "" {
		leadUntilKilled(t, connString)
		return
	}
	server := postgres.Start(t, postgres.Options{})
	db := server.Database(t)
	s := open(t, pgstore.Options{ConnString: db})
	f := follow(t, s)
	f.next(t)
	child, progress := startLeader(t, db)
	var slowest time.Duration
	claims := 0
	for round := range 30 {
		before := progress.Load()
		eventually(t, func() error {
			if progress.Load() < before+2 {
				return fmt.Errorf("round %d: the program does not write", round)
			}
			return nil
		})
		time.Sleep(rand.N(20 * time.Millisecond))
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		apply(t, s, set("leader", fmt.Sprint("parent ", round)))
		claims++
		slowest = max(slowest, time.Since(began))
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	_ = child.Process.Kill()
	apply(t, s, set("end", ""))
	leader, batches := "", 0
	for {
		batch := f.next(t)
		if batch[0].Key == "end" {
			break
		}
		for _, c := range batch {
			switch {
			case c.Key == "leader":
				leader = string(c.Value)
			case strings.HasPrefix(c.Key, "data"):
				batches++
				if by, _, _ := strings.Cut(string(c.Value), "\n"); by != leader {
					t.Fatalf("a batch of the leader %q was accepted while %q was the leader", by, leader)
				}
			}
		}
	}
	t.Logf("%d batches, %d takeovers, the slowest in %v", batches, claims, slowest)
	if slowest > 8*time.Second { // lock_timeout is 10 s
		t.Errorf("a takeover from a stopped process took %v", slowest)
	}
}

// startLeader starts the program, and returns the number of its batches.
func startLeader(t *testing.T, connString string) (*exec.Cmd, *atomic.Int64) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrozenLeader$")
	child.Env = append(os.Environ(), leaderEnv+"="+connString)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	progress := &atomic.Int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "batch" {
				progress.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		_ = child.Process.Kill() // it may have ended
		<-ended
		_ = child.Wait() // the error is that of the kill
	})
	return child, progress
}

// leadUntilKilled claims the leadership, writes while it is the leader, and repeats this.
func leadUntilKilled(t *testing.T, connString string) {
	s := open(t, pgstore.Options{ConnString: connString})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	large := strings.Repeat("x", 1<<20)
	for claim := 0; ctx.Err() == nil; claim++ {
		leader := set("leader", fmt.Sprint("child ", claim))
		if err := s.Apply(ctx, []work.Change{leader}); err != nil {
			t.Fatal(err)
		}
		for i := 0; ctx.Err() == nil; i++ {
			value := string(leader.Value) + "\n"
			if i%2 == 0 {
				value += large // so a stop is likely in the middle of a write
			}
			err := s.ApplyIf(ctx, leader, []work.Change{set(fmt.Sprint("data", i%10), value)})
			if errors.Is(err, work.ErrCondition) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("batch")
		}
	}
}

// TestLateBatch: the network delivers a batch after a later batch of the same process was applied.
// The server refuses the late batch.
func TestLateBatch(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	database := databaseOf(server.Database(t))
	first, second := tcpproxy.Start(t, server.Addr()), tcpproxy.Start(t, server.Addr())
	port := func(p *tcpproxy.Proxy) string { return p.Addr()[strings.LastIndex(p.Addr(), ":")+1:] }
	s := open(t, pgstore.Options{ConnString: fmt.Sprintf(
		"host=127.0.0.1,127.0.0.1 port=%s,%s user=postgres password=%s dbname=%s sslmode=disable",
		port(first), port(second), server.Password(), database)})
	f := follow(t, open(t, pgstore.Options{ConnString: server.ConnString(database)}))
	f.next(t)
	apply(t, s, set("counter", "1"))

	first.Stall()
	first.Block()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Apply(ctx, []work.Change{set("counter", "2")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Apply through a stalled network: %v", err)
	}
	apply(t, s, set("counter", "3"))
	first.Resume()
	eventually(t, func() error {
		if n := first.Links(); n > 0 {
			return fmt.Errorf("%d links have undelivered bytes", n)
		}
		return nil
	})
	time.Sleep(200 * time.Millisecond) // the server executes what it has received
	if got := content(t, s)["counter"]; got != "3" {
		t.Errorf("the counter is %s: the server applied a batch that arrived late", got)
	}
	apply(t, s, set("counter", "4"))
	for _, want := range []string{"1", "3", "4"} {
		if batch := f.next(t); string(batch[0].Value) != want {
			t.Errorf("the follower received %s, want %s", batch[0].Value, want)
		}
	}
}

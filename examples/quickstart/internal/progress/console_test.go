// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package progress_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

func TestConsoleWritesLines(t *testing.T) {
	var out bytes.Buffer
	c := progress.NewConsole(&out, nil)
	c.Print("Sending %d works", 1)
	c.Event(story[0])
	c.Event(story[4])
	c.Event(story[4])
	want := "Sending 1 works\n03:04:05.000  sent      b -> cluster1: 1 object\n03:04:05.005  applied   b on cluster1\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConsoleDrawsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		size := func() (int, int) { return 80, 24 }
		c := progress.NewConsole(&out, &progress.Terminal{Size: size})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()

		step := func(act func()) string {
			act()
			<-time.After(time.Second) // fake time
			synctest.Wait()
			text := out.String()
			out.Reset()
			return text
		}
		if got := step(func() { c.Print("hello") }); got != "hello\n" {
			t.Errorf("before there is a table: %q", got)
		}
		first := step(func() { c.Event(story[0]) })
		if !strings.HasPrefix(first, "\x1b[?25lWORK") || strings.Count(first, "\x1b[K\n") != 2 {
			t.Errorf("the first table: %q", first)
		}
		if again := step(func() {}); again != "" {
			t.Errorf("nothing changed, but: %q", again)
		}
		second := step(func() { c.Event(story[1]) })
		if !strings.HasPrefix(second, "\x1b[?25l\x1b[2A\r") || strings.Contains(second, "\x1b[2J") {
			t.Errorf("the second table is not drawn over the first: %q", second)
		}
		said := step(func() { c.Print("now the update") })
		if !strings.HasPrefix(said, "\x1b[3A\r\x1b[Jnow the update\n\x1b[?25lWORK") {
			t.Errorf("a line above the table: %q", said)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(out.String(), "\x1b[?25h") {
			t.Errorf("the cursor is not given back: %q", out.String())
		}
		out.Reset()
		if c.Print("done"); out.String() != "done\n" {
			t.Errorf("after the table: %q", out.String())
		}
	})
}

func TestConsoleFreezes(t *testing.T) {
	var out bytes.Buffer
	c := progress.NewConsole(&out, &progress.Terminal{Size: func() (int, int) { return 80, 24 }})
	c.Event(story[0])
	c.Freeze()
	if !strings.HasPrefix(out.String(), "\x1b[?25lWORK") || !strings.HasSuffix(out.String(), "\x1b[?25h") {
		t.Errorf("the last table: %q", out.String())
	}
	out.Reset()
	c.Event(story[4])
	c.Print("below")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(ctx); err != nil || out.String() != "below\n" {
		t.Errorf("afterwards: %q, %v", out.String(), err)
	}
}

func TestDetectTerminal(t *testing.T) {
	none := func(string) string { return "" }
	if progress.DetectTerminal(&bytes.Buffer{}, none) != nil {
		t.Error("a buffer is no terminal")
	}
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if progress.DetectTerminal(f, none) != nil {
		t.Error("a file is no terminal")
	}
}

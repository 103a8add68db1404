// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// TestRecords checks the two forms of each kind of record, and that each is one line.
func TestRecords(t *testing.T) {
	object := klog.KRef("c1", "w")
	for _, test := range []struct {
		write      func(klog.Logger)
		text, json string
	}{
		{
			func(l klog.Logger) { l.Info("Connected again", "client", "hub", "works", 3) },
			`level=INFO msg="Connected again" client=hub works=3`,
			`"level":"INFO","msg":"Connected again","client":"hub","works":3`,
		},
		{
			func(l klog.Logger) { l.WithValues("cluster", "c1").Error(errors.New("no\nway"), "Failed") },
			`level=ERROR msg=Failed cluster=c1 err="no\nway"`,
			`"level":"ERROR","msg":"Failed","cluster":"c1","err":"no\nway"`,
		},
		{
			func(l klog.Logger) { l.V(2).Info("Details", "work", object, "after", time.Second) },
			`level=DEBUG msg=Details work.name=w work.namespace=c1 after=1s`,
			`"level":"DEBUG","msg":"Details","work":{"name":"w","namespace":"c1"},"after":"1s"`,
		},
		{
			func(l klog.Logger) { l.Info("Controls", "file", "a\x1b[2J\u2028é世\xff") },
			`level=INFO msg=Controls file="a\x1b[2J\u2028é世\xff"`,
			`"level":"INFO","msg":"Controls","file":"a\u001b[2J\u2028é世\ufffd"`,
		},
		{func(l klog.Logger) { l.V(3).Info("Too detailed") }, "", ""},
	} {
		for _, form := range []struct {
			options logging.Options
			want    string
		}{
			{logging.Options{Verbosity: 2}, test.text}, {logging.Options{Verbosity: 2, JSON: true}, test.json},
		} {
			var out bytes.Buffer
			test.write(logging.New(&out, form.options))
			got := out.String()
			if !strings.Contains(got, form.want) || strings.Count(got, "\n") != min(len(form.want), 1) {
				t.Errorf("%q, want %q", got, form.want)
			}
			if form.options.JSON && form.want != "" && !json.Valid(out.Bytes()) {
				t.Errorf("%q is not JSON", got)
			}
		}
	}
}

// TestTimes checks that a record begins with its time in UTC.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1500 * time.Millisecond)
		var out bytes.Buffer
		logging.New(&out, logging.Options{}).Info("Started")
		if want := "time=2000-01-01T00:00:01.500Z level=INFO msg=Started\n"; out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}

// TestStart checks that the log has the records of the context and of klog, until restore is called.
func TestStart(t *testing.T) {
	var out bytes.Buffer
	ctx, restore := logging.Start(t.Context(), &out, logging.Options{Verbosity: 1})
	klog.FromContext(ctx).Info("From the context")
	klog.InfoS("From everywhere")
	klog.V(2).Info("Noise")
	klog.V(1).Info("Details")
	restore()
	if text := out.String(); !strings.Contains(text, "From the context") || !strings.Contains(text, "From everywhere") ||
		!strings.Contains(text, "Details") || strings.Contains(text, "Noise") {
		t.Errorf("%q", text)
	}
}

// TestRepeatedFailures checks that a failure that client-go reports again and again is logged once, and
// its end once.
func TestRepeatedFailures(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	utilruntime.ErrorHandlers = handlers[:1] // the other one has the time of the machine
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, restore := logging.Start(t.Context(), &out, logging.Options{})
		defer restore()
		for i := range 20 {
			for _, kind := range []string{"Secret", "ConfigMap"} {
				err := fmt.Errorf("Get ?resourceVersion=%d: read :%d->:443: connection refused", i, 4000+i)
				utilruntime.HandleErrorWithContext(ctx, err, "Failed to watch", "type", kind)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		const want = `time=2000-01-01T00:00:00.000Z level=ERROR msg="Failed to watch" type=Secret err="Get ?` +
			`resourceVersion=0: read :4000->:443: connection refused"
time=2000-01-01T00:00:00.000Z level=ERROR msg="Failed to watch" type=ConfigMap err="Get ?` +
			`resourceVersion=0: read :4000->:443: connection refused"
`
		text := out.String()
		if !strings.HasPrefix(text, want) || strings.Count(text, "\n") != 4 || strings.Count(text,
			"time=2000-01-01T00:21:00.") != 2 || !strings.Contains(text,
			`msg="Recovered from a failure" type=Secret failure="Failed to watch"`) {
			t.Error(text)
		}
	})
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]logging.Options{
		"": {}, "--log-format=json -v=4": {JSON: true, Verbosity: 4}, "--log-format text": {},
	} {
		var o logging.Options
		if err := parse(&o, strings.Fields(args)); err != nil || o != want {
			t.Errorf("%q: %+v, %v; want %+v", args, o, err, want)
		}
	}
	for args, want := range map[string]string{
		"--log-format xml": "must be text or json", "-v x": "must be from 0 to 10", "-v 11": "must be from 0 to 10",
	} {
		if err := parse(new(logging.Options), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func parse(o *logging.Options, args []string) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	return flags.Parse(args)
}

// TestWatch checks that a failure and a recovery are logged once, however long they last.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logging.New(&out, logging.Options{})))
		began := time.Now()
		watch := logging.Watch{Lost: "Lost the database", Back: "Reached the database again", Interval: time.Second,
			KeysAndValues: []any{"address", "db:1"}, Check: func(ctx context.Context) error {
				switch at := time.Since(began); {
				case at > 5*time.Second && at < 10*time.Second:
					return errors.New("refused")
				case at > 15*time.Second && at < 20*time.Second:
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}}
		time.AfterFunc(time.Minute, cancel)
		if err := watch.Start(ctx); err != nil {
			t.Error(err)
		}
		const want = `time=2000-01-01T00:00:06.000Z level=ERROR msg="Lost the database" address=db:1 err=refused
time=2000-01-01T00:00:10.000Z level=INFO msg="Reached the database again" address=db:1
time=2000-01-01T00:00:26.000Z level=ERROR msg="Lost the database" address=db:1 err="context deadline exceeded"
time=2000-01-01T00:00:27.000Z level=INFO msg="Reached the database again" address=db:1
`
		if out.String() != want {
			t.Errorf("%s\nwant:\n%s", out.String(), want)
		}
	})
}

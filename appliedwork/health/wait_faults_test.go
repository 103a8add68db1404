// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/health"
)

func TestBrokenWatchStartsAgain(t *testing.T) {
	for name, event := range map[string]*watch.Event{
		"closed": nil,
		"expired": {Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 410,
			Reason: metav1.StatusReasonExpired}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, unready("a"))
				broken := watch.NewFake()
				first := true
				c.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
					is := first
					first = false
					return is, broken, nil
				})
				c.wait(health.Options{}, unready("a"))
				c.update(ready("a")) // no watch reports it
				c.waiting()
				if event != nil {
					broken.Action(event.Type, event.Object)
				} else {
					broken.Stop()
				}
				time.Sleep(time.Second)
				if err := c.result(); err != nil {
					t.Error(err)
				}
				c.expect("a InProgress: warming up", "a Current: Resource is Ready")
			})
		})
	}
}

func TestUnreadableObjectIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ready("a"))
		var back atomic.Bool
		c.fail("list", func() error {
			if back.Load() {
				return nil
			}
			return errors.New("connection refused")
		})
		c.wait(health.Options{Timeout: time.Hour}, ready("a"))
		time.Sleep(time.Minute)
		c.expect("a Unknown: connection refused")
		if lists := c.count("list"); lists < 8 || lists > 25 {
			t.Errorf("%d lists in a minute: the pauses grow to 10 s", lists)
		}
		back.Store(true)
		time.Sleep(10 * time.Second)
		if err := c.result(); err != nil {
			t.Error(err)
		}
		c.expect("a Current: Resource is Ready")
	})
}

func TestWatchErrorKeepsLastResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, unready("a"))
		c.failWatch(func() error { return apierrors.NewTooManyRequests("slow down", 1) })
		c.wait(health.Options{}, ready("a"))
		time.Sleep(time.Minute)
		c.expect("a InProgress: warming up")
		c.update(ready("a"))
		time.Sleep(10 * time.Second)
		if err := c.result(); err != nil {
			t.Error(err)
		}
	})
}

func TestForbiddenWatchFallsBackToGet(t *testing.T) {
	for name, forbid := range map[string]func(*cluster){
		"list":  func(c *cluster) { c.fail("list", func() error { return errForbidden }) },
		"watch": func(c *cluster) { c.failWatch(func() error { return errForbidden }) },
		"not supported": func(c *cluster) {
			c.failWatch(func() error { return apierrors.NewMethodNotSupported(gadgets.GroupResource(), "watch") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, unready("a"))
				forbid(c)
				c.wait(health.Options{}, ready("a"), ready("b"))
				time.Sleep(time.Minute)
				c.expect("a InProgress: warming up", "b NotFound: the object does not exist")
				if n := c.count("get"); n < 16 || n > 50 || c.count("list") != 1 {
					t.Errorf("%d gets in a minute, %d lists: the pauses grow to 10 s", n, c.count("list"))
				}
				c.update(ready("a"))
				c.create(ready("b"))
				time.Sleep(10 * time.Second)
				if err := c.result(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestForbiddenGetIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ready("a"))
		for _, verb := range []string{"list", "get"} {
			c.fail(verb, func() error { return errForbidden })
		}
		c.wait(health.Options{Timeout: time.Minute}, ready("a"))
		err := <-c.waits
		var notReady *health.NotReadyError
		if !errors.As(err, &notReady) || notReady.Result.Status != health.StatusUnknown || !apierrors.IsForbidden(notReady) {
			t.Error(err)
		}
	})
}

func TestKindThatIsServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ready("a"))
		c.served.served.Store(false)
		c.wait(health.Options{}, ready("a"))
		time.Sleep(time.Minute)
		c.waiting()
		if events := c.take(); len(events) != 1 ||
			!strings.Contains(events[0], "Unknown: the API server does not serve Gadget.example.com") {
			t.Error(events)
		}
		c.served.served.Store(true)
		time.Sleep(10 * time.Second)
		if err := c.result(); err != nil {
			t.Error(err)
		}
	})
}

func TestNamespacedObjectNeedsANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ready("a"))
		obj := ready("a")
		obj.SetNamespace("")
		c.wait(health.Options{Timeout: time.Second}, obj)
		if err := <-c.waits; !errors.Is(err, appliedwork.ErrInvalidObject) {
			t.Error(err)
		}
	})
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login_test

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/spokewire/sdk-go/examples/internal/logging"
	"github.com/spokewire/sdk-go/examples/internal/login"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// TestHistoryIsBounded checks the limits of the number and of the bytes: the newest actions stay.
func TestHistoryIsBounded(t *testing.T) {
	for _, row := range []struct {
		reason, text string
		most, least  int
	}{
		{"many", "x", 500, 500}, {"large ones", strings.Repeat("x", 10<<10), 120, 100},
	} {
		s := memstore.New(memstore.Options{})
		h := &login.History{Store: s, Key: "/h/", Log: logging.New(t.Output(), logging.Options{}), Changed: func() {}}
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "ann"})
		var adding sync.WaitGroup
		for range 4 {
			adding.Go(func() {
				for range 130 {
					h.Add(ctx, login.Action{Text: row.text})
				}
			})
		}
		adding.Wait()
		h.Add(t.Context(), login.Action{Text: "last"})
		all, err := h.All(t.Context())
		kv, _ := s.Get(t.Context(), "/h/")
		if err != nil || len(all) > row.most || len(all) < row.least || len(kv.Value) > 64<<10 {
			t.Fatalf("%s: %d actions, %d bytes, %v", row.reason, len(all), len(kv.Value), err)
		}
		if last := all[len(all)-1]; last.Text != "last" || last.By != "" || all[0].By != "ann" || last.Created.IsZero() {
			t.Errorf("%s: %+v, %+v", row.reason, all[0], last)
		}
	}
}

// TestDamagedHistoryIsAnError checks that a damaged history is reported, and not replaced.
func TestDamagedHistoryIsAnError(t *testing.T) {
	s, log := memstore.New(memstore.Options{}), &lines{}
	if _, err := s.Txn(t.Context(), nil, []store.Op{store.Put("/h/", []byte("{"))}); err != nil {
		t.Fatal(err)
	}
	h := &login.History{Store: s, Key: "/h/", Log: logging.New(log, logging.Options{}), Changed: func() {}}
	h.Add(t.Context(), login.Action{Text: "pause"})
	if kv, err := s.Get(t.Context(), "/h/"); err != nil || string(kv.Value) != "{" {
		t.Errorf("%s, %v", kv.Value, err)
	}
	if text := log.take(); !strings.Contains(text, "the value of /h/ is damaged") {
		t.Errorf("the log is %s", text)
	}
}

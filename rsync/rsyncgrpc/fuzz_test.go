// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// FuzzCreateRequest: any received message is a context or an error, and a context is encoded the
// same again.
func FuzzCreateRequest(f *testing.F) {
	b := appcontext.NewBuilder("shop").Meta(appcontext.Meta{Project: "p", ChildContextIDs: []string{"x"}})
	b.App("db").Hook(appcontext.HookPreInstall, "edge", "c1",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"))
	b.App("web").DependsOn("db", appcontext.OpStatusReady, 1).Cluster("edge", "c2")
	c, err := b.Build()
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []*rsyncv1.CreateRequest{{}, {AppContext: &rsyncv1.AppContext{}},
		{AppContext: appContextMessage(c)}} {
		seed, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m rsyncv1.CreateRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		first, err := appContextOf(m.GetAppContext())
		if err != nil {
			return
		}
		invalid := appcontext.Validate(first)
		wire, err := proto.Marshal(appContextMessage(first))
		if err != nil {
			if invalid == nil {
				t.Fatal(err)
			}
			return // fields from manifests may not be valid text
		}
		var again rsyncv1.AppContext
		if err := proto.Unmarshal(wire, &again); err != nil {
			t.Fatal(err)
		}
		second, err := appContextOf(&again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("written and read again (-first +second):\n%s", diff)
		}
	})
}

// FuzzWatchResponse: any message of a server is decoded into changes, and these are encoded the
// same again.
func FuzzWatchResponse(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m rsyncv1.WatchResponse
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		p := position{next: 1}
		for _, change := range m.GetChanges() {
			first := changeOf(change)
			second := changeOf(changeMessage(&first))
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("written and read again (-first +second):\n%s", diff)
			}
			p.advance(&first)
			if p.advance(&first) {
				t.Errorf("%+v is new twice", first)
			}
		}
	})
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/rsyncv1"
)

// TestLargeAnswersShareManifests: large answers are encoded without a copy of the manifests, and a
// client decodes the same content.
func TestLargeAnswersShareManifests(t *testing.T) {
	b := appcontext.NewBuilder("shop").Meta(appcontext.Meta{Project: "p", ChildContextIDs: []string{"x", "y"}})
	b.App("db").Hook(appcontext.HookPreInstall, "edge", "c1",
		[]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"))
	web := b.App("web").DependsOn("db", appcontext.OpStatusReady, 1)
	for i, size := range []int{0, 100, 900 << 10, 600 << 10, 600 << 10, 9 << 20, 5} {
		manifest := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a%d"},"data":{"x":"%s"}}`,
			i, bytes.Repeat([]byte("x"), size))
		web.Resource("edge", fmt.Sprint("c", i%3), manifest)
	}
	c, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	message := &rsyncv1.GetAppContextResponse{AppContext: appContextMessage(c)}
	encoded, err := encodeShared(message)
	if err != nil {
		t.Fatal(err)
	}
	if encoded.Len() != proto.Size(message) {
		t.Errorf("has %d bytes, want %d", encoded.Len(), proto.Size(message))
	}
	decoded := &rsyncv1.GetAppContextResponse{}
	if err := proto.Unmarshal(encoded.Materialize(), decoded); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(message, decoded) {
		t.Error("another message is decoded")
	}
	copied := 0
	for _, buffer := range encoded {
		if buffer.Len() > 9<<20 {
			continue
		}
		if copied += buffer.Len(); buffer.Len() > 2*sharedBytes {
			t.Errorf("a buffer has %d bytes", buffer.Len())
		}
	}
	if copied > 3<<20 {
		t.Errorf("%d bytes are copies", copied)
	}
}

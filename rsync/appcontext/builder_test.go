// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

var configMap = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"x","name":"a"}}`)

// TestBuildTwice: a builder can be used after Build, and later calls do not change the built
// context.
func TestBuildTwice(t *testing.T) {
	b := appcontext.NewBuilder("shop.1")
	b.App("web").Resource("aws", "c1", configMap).Cluster("aws", "c2")
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	before := text(t, first)
	b.App("db").Cluster("aws", "c1")
	b.App("web").DependsOn("db", appcontext.OpStatusReady, time.Second).Resource("aws", "c2", configMap).Resource("aws",
		"c3", configMap)
	if now := text(t, first); now != before {
		t.Errorf("the first context was\n%s\nand is\n%s", before, now)
	}
	second, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	web := second.App("web")
	if len(second.Apps) != 2 || len(web.Clusters) != 3 || len(web.Clusters[1].Resources) != 1 || len(web.DependsOn) != 1 {
		t.Errorf("the second context has not what was added: %+v", second)
	}
}

// text returns a context as JSON.
func text(t *testing.T, c *appcontext.AppContext) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// BenchmarkBuilder adds an app to many clusters. The time for each cluster should not depend on the
// number of clusters.
func BenchmarkBuilder(b *testing.B) {
	for _, clusters := range []int{100, 10000} {
		names := make([]string, clusters)
		for i := range names {
			names[i] = fmt.Sprintf("cluster%d", i)
		}
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				builder := appcontext.NewBuilder("shop.1")
				app := builder.App("web")
				for _, name := range names {
					app.Resource("aws", name, configMap)
				}
				if _, err := builder.Build(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*clusters), "ns/cluster")
		})
	}
}

func manifest(kind, name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: %s\nmetadata:\n  name: %q\n", kind, name)
}

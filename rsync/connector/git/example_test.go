// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// Example commits two objects into a repository on this machine, and deletes one.
func Example() {
	repository, err := os.MkdirTemp("", "fleet")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(repository) }()
	run := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).Output()
		if err != nil {
			log.Fatal(err)
		}
		return string(out)
	}
	run("init", "-q", "--bare")

	connectors, err := git.New(map[string]git.Repository{
		"edge+*": {URL: repository, Path: "clusters", CreateBranch: true},
	}, git.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	cluster, err := connectors.Connector(ctx, "edge", "c1") // the engine of package rsync does this
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Close() }()

	batch := connector.Batch{AppContextID: "shop", App: "web"}
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}",
	} {
		object, err := appcontext.ParseObject([]byte(text))
		if err != nil {
			log.Fatal(err)
		}
		batch.Resources = append(batch.Resources, appcontext.Resource{Object: object, Manifest: []byte(text)})
	}
	if err := cluster.Apply(ctx, batch); err != nil {
		log.Fatal(err)
	}
	fmt.Print(run("ls-tree", "-r", "--name-only", "main"))
	batch.Resources = batch.Resources[1:]
	if err := cluster.Delete(ctx, batch); err != nil {
		log.Fatal(err)
	}
	fmt.Print(run("log", "--format=%s", "main"))
	// Output:
	// clusters/edge+c1/_cluster/Namespace/shop.yaml
	// clusters/edge+c1/shop/Deployment.apps/web.yaml
	// Delete 1 object of shop/web on edge+c1
	// Apply 2 objects of shop/web on edge+c1
}

// ExampleRepository_Directory is what to write into the configuration of a GitOps agent.
func ExampleRepository_Directory() {
	at := git.Repository{Path: "clusters"}
	c1 := appcontext.ClusterID{Provider: "edge", Name: "c1"}
	fmt.Println(at.Directory(c1))
	fmt.Println(at.File(c1, appcontext.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}))
	fmt.Println(at.File(c1, appcontext.Object{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:reader"}))
	// Output:
	// clusters/edge+c1
	// clusters/edge+c1/shop/Deployment.apps/web.yaml
	// clusters/edge+c1/_cluster/ClusterRole.rbac.authorization.k8s.io/system%3areader.yaml
}

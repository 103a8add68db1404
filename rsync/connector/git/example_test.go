// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/git"
)

// Example commits two objects into a repository on this machine, and deletes one.
func Example() {
	repository, err := os.MkdirTemp("", "fleet")
	if err == nil {
		err = commitTwo(context.Background(), repository)
	}
	if err != nil {
		fmt.Println(err)
	}
	_ = os.RemoveAll(repository)
	// Output:
	// clusters/edge+c1/_cluster/Namespace/shop.yaml
	// clusters/edge+c1/shop/Deployment.apps/web.yaml
	// Delete 1 object of shop/web on edge+c1
	// Apply 2 objects of shop/web on edge+c1
}

func commitTwo(ctx context.Context, repository string) error {
	connectors, err := git.New(map[string]git.Repository{
		"edge+*": {URL: repository, Path: "clusters", CreateBranch: true},
	}, git.Options{})
	if err != nil {
		return err
	}
	cluster, err := connectors.Connector(ctx, "edge", "c1") // the engine of package rsync does this
	if err != nil {
		return err
	}
	batch := connector.Batch{AppContextID: "shop", App: "web"}
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}",
	} {
		object, err := appcontext.ParseObject([]byte(text))
		if err != nil {
			return err
		}
		batch.Resources = append(batch.Resources, appcontext.Resource{Object: object, Manifest: []byte(text)})
	}
	deployment := connector.Batch{AppContextID: "shop", App: "web", Resources: batch.Resources[1:]}
	return errors.Join(
		runGit(repository, "init", "-q", "--bare"),
		cluster.Apply(ctx, batch),
		runGit(repository, "ls-tree", "-r", "--name-only", "main"),
		cluster.Delete(ctx, deployment),
		runGit(repository, "log", "--format=%s", "main"),
		cluster.Close(),
	)
}

// runGit prints the output of git.
func runGit(repository string, args ...string) error {
	out, err := exec.Command("git", append([]string{"-C", repository}, args...)...).Output()
	fmt.Print(string(out))
	return err
}

// ExampleRepository_Directory prints the path for the configuration of a GitOps agent.
func ExampleRepository_Directory() {
	at := git.Repository{Path: "clusters"}
	c1 := appcontext.ClusterID{Provider: "edge", Name: "c1"}
	fmt.Println(at.Directory(c1))
	fmt.Println(at.File(c1, appcontext.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}))
	fmt.Println(at.File(c1, appcontext.Object{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole",
		Name: "system:reader"}))
	// Output:
	// clusters/edge+c1
	// clusters/edge+c1/shop/Deployment.apps/web.yaml
	// clusters/edge+c1/_cluster/ClusterRole.rbac.authorization.k8s.io/system%3areader.yaml
}

// One repository has a folder for each cluster of a provider. Its URL must not have credentials.
func ExampleNew() {
	_, err := git.New(map[string]git.Repository{"edge+*": {URL: "https://git.example.com/fleet.git",
		Auth: git.Auth{TokenFile: "/etc/git/token"}}}, git.Options{})
	fmt.Println(err)
	_, err = git.New(map[string]git.Repository{"edge+*": {URL: "https://user:secret@git.example.com/fleet.git"}},
		git.Options{})
	fmt.Println(errors.Is(err, git.ErrInvalid))
	// Output:
	// <nil>
	// true
}

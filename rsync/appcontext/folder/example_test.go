// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder_test

import (
	"fmt"
	"log"
	"testing/fstest"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/folder"
)

// Each folder is an app. Programs usually pass os.DirFS.
func ExampleAdd() {
	files := fstest.MapFS{
		"db/volume.yaml": {Data: []byte("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}")},
		"web/migration.yaml": {Data: []byte("{apiVersion: batch/v1, kind: Job, metadata: {name: migration, " +
			"annotations: {helm.sh/hook: pre-install}}}")},
	}
	b := appcontext.NewBuilder("shop")
	if err := folder.Add(b, files, "main", appcontext.ClusterID{Provider: "edge", Name: "cluster1"}); err != nil {
		log.Fatal(err)
	}
	shop, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	for _, app := range shop.Apps {
		r := app.Clusters[0].Resources[0]
		fmt.Printf("%s: %s, hook %q\n", app.Name, r.Object, r.Hook)
	}
	// Output:
	// db: PersistentVolumeClaim data, hook ""
	// web: batch/Job migration, hook "pre-install"
}

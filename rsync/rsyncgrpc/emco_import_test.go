// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

// withEMCO serves an engine that imports contexts from EMCO's keys. Each context has one ConfigMap
// on one cluster.
func withEMCO(t *testing.T, o rsyncgrpc.ServerOptions, clusters map[string]string) (*scene, *peer) {
	t.Helper()
	s := newScene(t)
	keys := memstore.New(memstore.Options{})
	for id, cluster := range clusters {
		root := "/context/" + id + "/"
		below := root + "app/web/cluster/" + cluster + "/"
		for key, value := range map[string]string{
			root: id, root + "app/instruction/order/": `{"apporder":["web"]}`, root + "app/web/": "web", below: cluster,
			below + "resource/instruction/order/":  `{"resorder":["settings+ConfigMap"]}`,
			below + "resource/settings+ConfigMap/": string(configMap("settings", "1")),
		} {
			must[store.TxnResult](t)(keys.Txn(t.Context(), nil, []store.Op{store.Put(key, fmt.Appendf(nil, "%q", value))}))
		}
		if id == "half" {
			must[store.TxnResult](t)(keys.Txn(t.Context(), nil, []store.Op{store.Delete(root + "app/instruction/order/")}))
		}
	}
	o.EMCOImporter = must[*emco.Bridge](t)(emco.New(s.engine, keys))
	addr, _ := serve(t, s.engine, o)
	return s, newPeer(t, dial(t, addr, rsyncgrpc.ClientOptions{}).Conn())
}

// TestEMCOImport: an install or an update creates a context that only EMCO has. Other calls do not
// create it.
func TestEMCOImport(t *testing.T) {
	s, p := withEMCO(t, rsyncgrpc.ServerOptions{}, map[string]string{"7": "edge+c1", "8": "edge+c1", "half": "edge+c1"})
	for _, method := range []string{"UninstallApp", "ReadAppContext"} {
		if ok, message := p.call("/installapp/"+method, method+"Request", method+"Response", "app_context", "7"); ok {
			t.Errorf("%s imports: %s", method, message)
		}
	}
	for id, want := range map[string]string{
		"9": `app context "9"`, "half": "/context/half/app/instruction/order/", "a/b": "cannot be the ID",
	} {
		if ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context", id); ok || !strings.Contains(message, want) {
			t.Errorf("%s: %v, %q", id, ok, message)
		}
	}
	for seq := range 2 { // the second call is for an existing context
		ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context", "7")
		if want := fmt.Sprintf("queued as event %d of app context 7", seq+1); !ok || message != want {
			t.Fatalf("%v, %q", ok, message)
		}
		must[*rsync.Status](t)(s.engine.Wait(limited(t), rsync.EventRef{AppContextID: "7", Seq: uint64(seq + 1)}))
	}
	fields := []string{"update_from_appContext", "7", "update_to_appContext", "8"}
	if ok, message := p.call("/updateapp/UpdateApp", "UpdateAppRequest", "UpdateAppResponse", fields...); !ok {
		t.Fatal(message)
	}
	must[*rsync.Status](t)(s.engine.Wait(limited(t), rsync.EventRef{AppContextID: "8", Seq: 1}))
	if n := len(s.clusters.Cluster("edge", "c1").Objects()); n != 1 {
		t.Errorf("%d objects", n)
	}
}

// TestEMCOImportIsAuthorized: a client installs contexts of EMCO only on clusters that it may use.
// Otherwise nothing is created.
func TestEMCOImportIsAuthorized(t *testing.T) {
	rules := rsyncgrpc.Rules{{Clients: []string{"*"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbInstantiate}, Clusters: []string{"edge+c1"}}}
	s, p := withEMCO(t, rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{Authorizer: rules}}, map[string]string{
		"7": "edge+c1", "8": "edge+c2", "half": "edge+c2",
	})
	for _, id := range []string{"8", "half", "9"} {
		err := p.conn.Invoke(t.Context(), "/installapp/InstallApp", p.message("InstallAppRequest", "app_context", id), p.message("InstallAppResponse"))
		if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "order") {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := s.engine.Status(context.Background(), id); !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("%s was created: %v", id, err)
		}
	}
	if ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context", "7"); !ok {
		t.Error(message)
	}
}

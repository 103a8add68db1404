// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsyncgrpc_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"fmt"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc/emcopb"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

//go:embed testdata/emco-grpc.json
var emcoFacts []byte

// facts describes the services and messages of EMCO.
type facts struct {
	Services map[string]map[string][2]string
	Messages map[string]map[string]string
}

// peer is a program with EMCO's own messages, built from facts, without our generated code.
type peer struct {
	t    *testing.T
	conn grpc.ClientConnInterface
	file protoreflect.FileDescriptor
}

func readFacts(t *testing.T) facts {
	t.Helper()
	var f facts
	check(t, json.Unmarshal(emcoFacts, &f))
	return f
}

func newPeer(t *testing.T, conn grpc.ClientConnInterface) *peer {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: new("emco-facts.proto"), Syntax: new("proto3")}
	for name, fields := range readFacts(t).Messages {
		message := &descriptorpb.DescriptorProto{Name: &name}
		for number, text := range fields {
			kind, field, _ := strings.Cut(text, " ")
			n := int32(must[int](t)(strconv.Atoi(number)))
			types := map[string]descriptorpb.FieldDescriptorProto_Type{
				"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
			}
			message.Field = append(message.Field, &descriptorpb.FieldDescriptorProto{
				Name: &field, Number: &n, Type: types[kind].Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			})
		}
		file.MessageType = append(file.MessageType, message)
	}
	return &peer{t, conn, must[protoreflect.FileDescriptor](t)(protodesc.NewFile(file, nil))}
}

// message returns a message with fields, given as names and values.
func (p *peer) message(name string, fields ...string) *dynamicpb.Message {
	p.t.Helper()
	out := dynamicpb.NewMessage(p.file.Messages().ByName(protoreflect.Name(name)))
	for i := 0; i < len(fields); i += 2 {
		out.Set(out.Descriptor().Fields().ByName(protoreflect.Name(fields[i])), protoreflect.ValueOfString(fields[i+1]))
	}
	return out
}

// call calls a method, and returns the two fields of its answer.
func (p *peer) call(method, request, response string, fields ...string) (bool, string) {
	p.t.Helper()
	out := p.message(response)
	check(p.t, p.conn.Invoke(p.t.Context(), method, p.message(request, fields...), out))
	all := out.Descriptor().Fields()
	return out.Get(all.ByNumber(1)).Bool(), out.Get(all.ByNumber(2)).String()
}

// alert subscribes, and returns a function that reads the next notification as "client server
// context app cluster".
func (p *peer) alert(ctx context.Context, client, appContext string) func() (string, error) {
	p.t.Helper()
	stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/readyNotify/Alert")
	check(p.t, err)
	check(p.t, stream.SendMsg(p.message("Topic", "clientName", client, "appContext", appContext)))
	check(p.t, stream.CloseSend())
	return func() (string, error) {
		out := p.message("Notification")
		if err := stream.RecvMsg(out); err != nil {
			return "", err
		}
		var words []string
		for n := range protoreflect.FieldNumber(5) {
			words = append(words, out.Get(out.Descriptor().Fields().ByNumber(n+1)).String())
		}
		return strings.Join(words, " "), nil
	}
}

// TestEMCODescriptors: our files have exactly the content of EMCO's files, by name, number and
// type.
func TestEMCODescriptors(t *testing.T) {
	got := facts{Services: map[string]map[string][2]string{}, Messages: map[string]map[string]string{}}
	emcopb.Registry.Files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if f.Package() != "" || f.Syntax() != protoreflect.Proto3 {
			t.Errorf("%s has package %q and syntax %v", f.Path(), f.Package(), f.Syntax())
		}
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			fields := map[string]string{}
			for j := range m.Fields().Len() {
				field := m.Fields().Get(j)
				fields[strconv.Itoa(int(field.Number()))] = field.Kind().String() + " " + string(field.Name())
			}
			got.Messages[string(m.FullName())] = fields
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			methods := map[string][2]string{}
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				output := string(m.Output().FullName())
				if m.IsStreamingServer() {
					output = "stream " + output
				}
				methods[string(m.Name())] = [2]string{string(m.Input().FullName()), output}
			}
			got.Services[string(s.FullName())] = methods
		}
		return true
	})
	same(t, "EMCO's files", got, readFacts(t), nil, nil)
}

// TestEMCONamesAreFree: a program that links EMCO's own code can register the same names in its
// global registry.
func TestEMCONamesAreFree(t *testing.T) {
	theirs := newPeer(t, nil).file
	// with -count, it is registered already
	if _, err := protoregistry.GlobalFiles.FindFileByPath(theirs.Path()); err != nil {
		check(t, protoregistry.GlobalFiles.RegisterFile(theirs))
	}
	if _, err := emcopb.Registry.Types.FindMessageByName("InstallAppRequest"); err != nil {
		t.Error(err)
	}
	wire := must[[]byte](t)(proto.Marshal(&emcopb.InstallAppRequest{AppContext: "a"}))
	if other := must[[]byte](t)(
		proto.Marshal(newPeer(t, nil).message("InstallAppRequest", "app_context", "a"))); !slices.Equal(wire, other) {
		t.Errorf("%x, want %x", wire, other)
	}
}

// TestEMCO: a peer with EMCO's messages installs, reads, updates, rolls back and uninstalls, and
// gets the reasons of failures.
func TestEMCO(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "one", "1", "c1", "c2")))
	check(t, s.engine.Create(ctx, shop(t, "two", "2", "c1")))
	p := newPeer(t, client.Conn())
	for _, step := range []struct {
		method, request, response string
		fields                    []string
		id                        string
		state                     rsync.State
	}{
		{"/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", []string{"app_context", "one"}, "one",
			rsync.Instantiated},
		{"/installapp/ReadAppContext", "ReadAppContextRequest", "ReadAppContextResponse", []string{"app_context", "one"},
			"one", rsync.Instantiated},
		{"/updateapp/UpdateApp", "UpdateAppRequest", "UpdateAppResponse",
			[]string{"update_from_appContext", "one", "update_to_appContext", "two"}, "two", rsync.Instantiated},
		{"/updateapp/RollbackApp", "RollbackAppRequest", "RollbackAppResponse",
			[]string{"rollback_from_appContext", "two", "rollback_to_appContext", "one"}, "one", rsync.Instantiated},
		{"/installapp/UninstallApp", "UninstallAppRequest", "UninstallAppResponse", []string{"app_context", "one"}, "one",
			rsync.Terminated},
	} {
		ok, message := p.call(step.method, step.request, step.response, step.fields...)
		before := must[*rsync.Status](t)(s.engine.Status(ctx, step.id))
		seq := before.Queue[len(before.Queue)-1].Seq
		if want := "queued as event " + strconv.Itoa(int(seq)) + " of app context " + step.id; !ok || message != want {
			t.Fatalf("%s: %v, %q, want %q", step.method, ok, message, want)
		}
		if after := must[*rsync.Status](t)(
			s.engine.Wait(ctx, rsync.EventRef{AppContextID: step.id, Seq: seq})); after.State != step.state {
			t.Errorf("after %s the state is %s, want %s", step.method, after.State, step.state)
		}
		bad := slices.Clone(step.fields)
		bad[1] = "none"
		if ok, message := p.call(step.method, step.request, step.response, bad...); ok ||
			!strings.Contains(message, `app context "none": app context or event not found`) {
			t.Errorf("%s: %v, %q", step.method, ok, message)
		}
	}
	check(t, s.engine.Stop(ctx, "two"))
	if ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context",
		"two"); ok || !strings.Contains(message, "stopped") {
		t.Errorf("a stopped context: %v, %q", ok, message)
	}
}

// TestEMCOAlert: a peer gets a notification for each app on each cluster that is done, now or
// later, until Unsubscribe.
func TestEMCOAlert(t *testing.T) {
	s, client := remote(t, rsyncgrpc.ServerOptions{})
	ctx := limited(t)
	check(t, s.engine.Create(ctx, shop(t, "a", "1", "c1", "c2")))
	s.clusters.Cluster("edge", "c2").SetMode(fake.ModeUnreachable)
	p := newPeer(t, client.Conn())
	early := p.alert(ctx, "me", "a")
	ref := must[rsync.EventRef](t)(s.engine.Instantiate(ctx, "a"))
	expect := func(next func() (string, error), want string) {
		t.Helper()
		if got, err := next(); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	expect(early, "me rsync a web edge+c1")
	late := p.alert(ctx, "you", "a")
	expect(late, "you rsync a web edge+c1")
	s.clusters.Cluster("edge", "c2").SetMode(fake.ModeWorks)
	must[*rsync.Status](t)(s.engine.Wait(ctx, ref))
	expect(early, "me rsync a web edge+c2")
	expect(late, "you rsync a web edge+c2")

	check(t, client.Conn().Invoke(ctx, "/readyNotify/Unsubscribe",
		p.message("Topic", "clientName", "me", "appContext", "a"), p.message("UnsubscribeResponse")))
	if got, err := early(); !errors.Is(err, io.EOF) {
		t.Errorf("after Unsubscribe: %q, %v", got, err)
	}
	must[*rsync.Status](t)(s.engine.Wait(ctx, must[rsync.EventRef](t)(s.engine.Terminate(ctx, "a"))))
	check(t, s.engine.Delete(ctx, "a"))
	if got, err := late(); !errors.Is(err, io.EOF) {
		t.Errorf("after the context's end: %q, %v; its deletion on clusters is nothing to notify of", got, err)
	}
	if _, err := p.alert(ctx, "me", "none")(); status.Code(err) != codes.NotFound {
		t.Errorf("a context that is not there: %v", err)
	}
}

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
		"9": `app context "9"`, "half": "/context/half/app/instruction/order/", "a/b": "of letters, digits and . _ - : @ +",
	} {
		if ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context",
			id); ok || !strings.Contains(message, want) {
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
	rules := rsyncgrpc.Rules{{Clients: []string{"*"}, Verbs: []rsyncgrpc.Verb{rsyncgrpc.VerbInstantiate},
		Clusters: []string{"edge+c1"}}}
	s, p := withEMCO(t, rsyncgrpc.ServerOptions{Options: rsyncgrpc.Options{Authorizer: rules}}, map[string]string{
		"7": "edge+c1", "8": "edge+c2", "half": "edge+c2",
	})
	for _, id := range []string{"8", "half", "9"} {
		err := p.conn.Invoke(t.Context(), "/installapp/InstallApp", p.message("InstallAppRequest", "app_context", id),
			p.message("InstallAppResponse"))
		if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "order") {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := s.engine.Status(context.Background(), id); !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("%s was created: %v", id, err)
		}
	}
	if ok, message := p.call("/installapp/InstallApp", "InstallAppRequest", "InstallAppResponse", "app_context",
		"7"); !ok {
		t.Error(message)
	}
}

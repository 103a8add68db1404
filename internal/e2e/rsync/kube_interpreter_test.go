// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/customization"
	"github.com/spokewire/sdk-go/interpreter/lua"
	"github.com/spokewire/sdk-go/interpreter/native"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// The interfaces need no adapter.
var (
	_ kubeconnector.Interpreter = &caller.Caller{}
	_ kubeconnector.Interpreter = &caller.Chained{}
	_ kubeconnector.Interpreter = &native.Interpreter{}
	_ kubeconnector.Interpreter = &customization.Interpreter{}
	_ kubeconnector.Interpreter = &lua.Interpreter{}
)

// fullThings finds a Thing healthy when it has its size. Its status has no conditions, so only the
// interpreter can show its health.
var fullThings = interpreter.HandlerFor[*unstructured.Unstructured]{
	Health: func(_ context.Context, u *unstructured.Unstructured) (bool, error) {
		want, _, err := unstructured.NestedInt64(u.Object, "spec", "size")
		if err != nil {
			return false, err
		}
		have, _, err := unstructured.NestedInt64(u.Object, "status", "size")
		return have >= want, err
	},
}

const customizedThings = `
apiVersion: config.karmada.io/v1alpha1
kind: InterpreterCustomization
metadata: {name: things}
spec:
  targets: [{apiVersion: GROUP/v1, kind: Thing}]
  health: object.?status.size.orValue(0) >= object.spec.size
`

const luaThings = `
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: things}
spec:
  target: {apiVersion: GROUP/v1, kind: Thing}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(thing)
          return thing.status ~= nil and thing.status.size >= thing.spec.size
        end
`

// onlyThings calls an interpreter only for the Things of a group.
type onlyThings struct {
	group string
	interpreter.Interpreter
}

func (o onlyThings) Interpret(ctx context.Context, q interpreter.Query) (interpreter.Answer, error) {
	if q.Object.GroupVersionKind().Group != o.group {
		return interpreter.Answer{}, interpreter.ErrNotInterpreted
	}
	return o.Interpreter.Interpret(ctx, q)
}

// thingWebhook serves fullThings unless down is set, and returns a caller that is configured for a
// group.
func thingWebhook(t *testing.T, group string) (webhooks *caller.Caller, down *atomic.Bool) {
	t.Helper()
	down = &atomic.Bool{}
	handler := interpreter.NewHandler(fullThings, interpreter.HandlerOptions{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "s3cr3t", http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	webhooks, err := caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(webhooks.Close)
	err = webhooks.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "things"},
			Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
				Name: "health.things.example.com", InterpreterContextVersions: []string{v1alpha1.Version},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				},
				Rules: []v1alpha1.KindRuleWithOperations{{
					Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationInterpretHealth},
					KindRule: v1alpha1.KindRule{
						APIGroups:   []string{group},
						APIVersions: []string{"v1"},
						Kinds:       []string{"Thing"},
					},
				}},
			}},
		}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return webhooks, down
}

// TestKubeInterpreter: an app waits for a custom resource of another app, which is ready when the
// interpreter finds it healthy. A failing webhook makes nothing ready.
func TestKubeInterpreter(t *testing.T) {
	t.Parallel()
	t.Run("in the process", func(t *testing.T) {
		t.Parallel()
		testKubeInterpreter(t, func(t *testing.T, group string) (kubeconnector.Interpreter, *atomic.Bool) {
			return caller.Chain(onlyThings{group, interpreter.FromHandler(fullThings)}, native.New()), nil
		})
	})
	t.Run("customization", func(t *testing.T) {
		t.Parallel()
		testKubeInterpreter(t, func(t *testing.T, group string) (kubeconnector.Interpreter, *atomic.Bool) {
			kinds, err := customization.New(
				customization.File{
					Name: "things.yaml",
					Text: []byte(strings.ReplaceAll(customizedThings, "GROUP", group)),
				},
			)
			if err != nil {
				t.Fatal(err)
			}
			return kinds, nil
		})
	})
	t.Run("customization of Karmada", func(t *testing.T) {
		t.Parallel()
		testKubeInterpreter(t, func(t *testing.T, group string) (kubeconnector.Interpreter, *atomic.Bool) {
			kinds, err := lua.New(lua.Options{}, lua.File{Text: []byte(strings.ReplaceAll(luaThings, "GROUP", group))})
			if err != nil {
				t.Fatal(err)
			}
			return kinds, nil
		})
	})
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		testKubeInterpreter(t, func(t *testing.T, group string) (kubeconnector.Interpreter, *atomic.Bool) {
			webhooks, down := thingWebhook(t, group)
			return caller.Chain(webhooks, native.New()), down
		})
	})
}

func testKubeInterpreter(
	t *testing.T,
	with func(t *testing.T, group string) (kubeconnector.Interpreter, *atomic.Bool),
) {
	group := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + ".example.com"
	asked, down := with(t, group)
	options := kubeconnector.Options{Interpreter: asked}
	s := newKubeSite(t, nil, options)
	engine := startEngine(
		t,
		newKubeConnectors(t, map[string]kubeconnector.Cluster{"edge+*": {Config: s.config}}, options),
		rsync.Options{PollInterval: 200 * time.Millisecond},
	)
	text := func(m string) []byte { return []byte(strings.ReplaceAll(m, "NS", s.namespace)) }
	createContext(t, engine, "things", func(b *appcontext.Builder) {
		b.App("db").Resource("edge", "c1", text(crd(group))).Resource("edge", "c1", text(thing(group, "one", 3)))
		b.App("web").DependsOn("db", appcontext.OpStatusReady, 0).Resource("edge", "c1", text(manifestOf("web", "1")))
	})
	ref, err := engine.Instantiate(t.Context(), "things")
	if err != nil {
		t.Fatal(err)
	}
	things := dynamic.NewForConfigOrDie(s.config).
		Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).
		Namespace(s.namespace)
	fill := func(size int) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"status":{"size":%d}}`, size)
		if _, err := things.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			t.Fatal(err)
		}
	}
	// shows waits until the status of the app has a text, and requires that the other app waits.
	shows := func(want string) {
		t.Helper()
		eventually(t, func() string {
			status, err := engine.Status(t.Context(), "things")
			if err != nil {
				return err.Error()
			}
			if c := status.Cluster("db", kube1); c == nil || !strings.Contains(fmt.Sprintf("%+v", *c), want) {
				return fmt.Sprintf("%+v, want %q", c, want)
			}
			return ""
		})
		if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "web",
			metav1.GetOptions{}); !apierrors.IsNotFound(
			err,
		) {
			t.Errorf("web did not wait: %v", err)
		}
	}
	shows("is not ready yet: the interpreter reports that it is not healthy")
	if down != nil {
		down.Store(true)
		fill(3)
		shows("is not ready yet: its health is unknown: the interpreter failed")
		if status, err := engine.Status(t.Context(), "things"); err != nil ||
			strings.Contains(fmt.Sprintf("%+v", status), "s3cr3t") {
			t.Errorf("the status has the answer of the webhook: %+v, %v", status, err)
		}
		down.Store(false)
	}
	fill(3)
	if _, err := await(t, engine, ref, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.state(thing(group, "one", 3)); !got.Ready {
		t.Errorf("%+v, want it ready", got)
	}
	fill(2)
	if got := s.state(thing(group, "one", 3)); got.Ready {
		t.Errorf("%+v, want it not ready", got)
	}
}

// TestKubeSlowInterpreter: an interpreter that does not answer delays only the apps with its
// objects, and no other app of the cluster.
func TestKubeSlowInterpreter(t *testing.T) {
	t.Parallel()
	group := "slow.example.com"
	options := kubeconnector.Options{Interpreter: slow{}, Timeout: 5 * time.Minute}
	s := newKubeSite(t, nil, options)
	s.apply(crd(group))
	engine := startEngine(
		t,
		newKubeConnectors(t, map[string]kubeconnector.Cluster{"edge+*": {Config: s.config}}, options),
		rsync.Options{Workers: 20, ClusterConcurrency: 4},
	)
	text := func(m string) []byte { return []byte(strings.ReplaceAll(m, "NS", s.namespace)) }
	const stuck = 12 // more than the concurrent calls of the engine to a cluster
	for i := range stuck {
		id := fmt.Sprint("stuck", i)
		createContext(t, engine, id, func(b *appcontext.Builder) {
			b.App("db").Resource("edge", "c1", text(thing(group, id, 1)))
			b.App("web").DependsOn("db", appcontext.OpStatusReady, 0).Resource("edge", "c1", text(manifestOf("web-"+id, "1")))
		})
		if _, err := engine.Instantiate(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	things := dynamic.NewForConfigOrDie(s.config).
		Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).
		Namespace(s.namespace)
	eventually(t, func() string {
		list, err := things.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != stuck {
			return fmt.Sprintf("%d things are there: %v", len(list.Items), err)
		}
		return ""
	})
	createContext(
		t,
		engine,
		"other",
		func(b *appcontext.Builder) { b.App("app").Resource("edge", "c1", text(manifestOf("other", "1"))) },
	)
	ref, err := engine.Instantiate(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // less than the time limit of a call
	defer cancel()
	if _, err := engine.Wait(ctx, ref); err != nil {
		t.Fatalf("it waits for the interpreter: %v", err)
	}
	for i := range stuck {
		if status, err := engine.Status(t.Context(), fmt.Sprint("stuck", i)); err != nil ||
			status.State != rsync.Instantiating {
			t.Errorf("%+v, %v", status, err)
		}
	}
}

// slow never answers calls for Things.
type slow struct{}

func (slow) Health(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	if u.GetKind() != "Thing" {
		return false, kubeconnector.ErrNotInterpreted
	}
	<-ctx.Done()
	return true, ctx.Err()
}

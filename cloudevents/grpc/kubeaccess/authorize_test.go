// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

// use connects to a server with the reviews, and subscribes to a topic filter or publishes on a topic.
func use(t *testing.T, r *kubeaccess.Reviews, topic string, write bool) error {
	t.Helper()
	server, err := grpc.NewServer(grpc.ServerOptions{Insecure: true, Tokens: r, Authorizer: r})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport, err := grpc.New(grpc.Options{Address: listener.Addr().String(), Insecure: true, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer background.Run(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })()
	o := cloudevents.ConnectOptions{Receive: func(cloudevents.Message) {}, Refuse: func(string, error) {}}
	if !write {
		o.Filters = []string{topic}
	}
	conn, err := transport.Connect(t.Context(), o)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !write {
		return nil
	}
	result := make(chan error, 1)
	if err := conn.Publish(t.Context(), cloudevents.Message{Topic: topic, Event: eventFor(topic)},
		func(err error) { result <- err }); err != nil {
		t.Fatal(err)
	}
	return <-result
}

// eventFor is an event of the source hub and the cluster c1. The server publishes it on a topic of the
// profile ManifestBundle only if its type and its names are those of the topic.
func eventFor(topic string) *ce.Event {
	kind := map[string]string{
		"sourceevents": "spec.create_request", "agentevents": "status.update_request",
		"sourcebroadcast": "status.resync_request", "agentbroadcast": "spec.resync_request",
	}[path.Base(topic)]
	e := ce.New()
	e.SetID("1")
	e.SetSource("hub")
	e.SetType("io.open-cluster-management.works.v1alpha1.manifestbundles." + kind)
	if path.Base(topic) != "sourcebroadcast" {
		e.SetExtension("clustername", "c1")
	}
	if path.Base(topic) != "agentbroadcast" {
		e.SetExtension("originalsource", "hub")
	}
	return &e
}

// TestRightsOfTopics checks the rights for all topics. Those of agents are the ones that OCM's hub checks.
func TestRightsOfTopics(t *testing.T) {
	const (
		read, write = false, true
		works       = "manifestworks.work.open-cluster-management.io"
		statuses    = "manifestworks/status.work.open-cluster-management.io"
		source      = "u use sources.cloudevents.spokewire.io"
	)
	edit := []string{"u create " + works + " c1", "u update " + works + " c1", "u delete " + works + " c1"}
	for _, row := range []struct {
		topic  string
		write  bool
		rights []string
	}{
		{"/sources/+/clusters/c1/manifests", read, []string{"u watch " + works + " c1"}},
		{"$share/g//sources/hub/clusters/c1/manifests", read, []string{"u watch " + works + " c1"}},
		{"/sources/+/clusters/+/manifests", read, []string{"u watch " + works}},
		{"/sources/+/clusters/c1/statusresync", read, []string{"u watch " + works + " c1"}},
		{"/sources/+/resync/clusters/manifestsstatus", read, nil},
		{"/sources/hub/clusters/c1/manifestsstatus", write, []string{"u update " + statuses + " c1"}},
		{"/sources/hub/clusters/c1/specresync", write, []string{"u list " + works + " c1"}},
		{"/sources/resync/c1/manifests", write, []string{"u list " + works + " c1"}},
		{"/clusters/c1/presence", write, []string{"u watch " + works + " c1"}},
		{"/clusters/c1/presence", read, []string{"u watch " + works + " c1"}},
		{"sources/+/clusters/c1/sourceevents", read, []string{"u watch " + works + " c1"}},
		{"sources/+/sourcebroadcast", read, nil},
		{"sources/hub/clusters/c1/agentevents", write, []string{"u update " + statuses + " c1", "u list " + works + " c1"}},
		{"clusters/c1/agentbroadcast", write, []string{"u list " + works + " c1"}},

		{"/sources/hub/clusters/+/manifestsstatus", read, []string{source + " hub", "u watch " + works}},
		{"/sources/+/clusters/c1/manifestsstatus", read, []string{source, "u watch " + works + " c1"}},
		{"/sources/resync/+/manifests", read, []string{"u watch " + works}},
		{"/sources/hub/clusters/c1/manifests", write, append([]string{source + " hub"}, edit...)},
		{"/sources/hub/clusters/c1/statusresync", write, []string{source + " hub", "u list " + statuses + " c1"}},
		{"/sources/hub/resync/clusters/manifestsstatus", write, []string{source + " hub", "u list " + statuses}},
		{"/sources/hub/presence", write, []string{source + " hub"}},
		{"sources/hub/clusters/+/agentevents", read, []string{source + " hub", "u watch " + works}},
		{"sources/hub/clusters/c1/sourceevents", write,
			append(append([]string{source + " hub"}, edit...), "u list "+statuses+" c1")},
		{"sources/hub/sourcebroadcast", write, []string{source + " hub", "u list " + statuses}},
	} {
		t.Run(fmt.Sprintf("%s write %v", row.topic, row.write), func(t *testing.T) {
			a := &api{tokens: map[string]authenticationv1.TokenReviewStatus{
				secret: {Authenticated: true, User: authenticationv1.UserInfo{Username: "u"}},
			}}
			r := newReviews(t, a, kubeaccess.Options{})
			if err := use(t, r, row.topic, row.write); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{"token"}, row.rights...), a.questions()); diff != "" {
				t.Errorf("asked other questions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDenials checks the texts of denials, and accesses that are denied without a question.
func TestDenials(t *testing.T) {
	a := &api{denied: true}
	r := newReviews(t, a, kubeaccess.Options{})
	anonymous, foreign, all := statusOf("c1"), statusOf("c1"), statusOf("")
	anonymous.Identity = grpc.Identity{}
	foreign.Role, foreign.Topic = "", "other"
	source := statusOf("c1")
	source.Role = grpc.RoleSource
	unknown := statusOf("c1")
	unknown.Topic = "other"
	for _, row := range []struct {
		access grpc.Access
		want   string
		asked  int
	}{
		{statusOf("c1"), `user "agent" cannot update resource "manifestworks/status.work.open-cluster-management.io" ` +
			`in the namespace "c1"`, 1},
		{all, `user "agent" cannot update resource "manifestworks/status.work.open-cluster-management.io" ` +
			`at the cluster scope`, 1},
		{source, `user "agent" cannot use resource "sources.cloudevents.spokewire.io" with the name "hub"`, 1},
		{anonymous, "no user and no groups", 0},
		{foreign, "not a topic of works", 0},
		{unknown, "not a topic of works", 0},
	} {
		err := r.Authorize(t.Context(), row.access)
		if err == nil || !strings.Contains(err.Error(), row.want) || status.Code(err) == codes.Unavailable {
			t.Errorf("got %v, want a denial with %q", err, row.want)
		}
		if asked := a.questions(); len(asked) != row.asked {
			t.Errorf("asked %q, want %d questions", asked, row.asked)
		}
	}
}

// TestRemovedRightEnds checks that decisions are used for CacheTTL, for allowed and denied accesses.
func TestRemovedRightEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		r := newReviews(t, a, kubeaccess.Options{CacheTTL: 3 * time.Second})
		for _, denied := range []bool{false, true, false} {
			a.set(func() { a.denied = denied })
			for range 3 {
				if err := r.Authorize(t.Context(), statusOf("c1")); (err != nil) != denied {
					t.Errorf("got %v, want denied %v", err, denied)
				}
				a.set(func() { a.denied = !denied })
				time.Sleep(time.Second)
			}
			if asked := a.questions(); len(asked) != 1 {
				t.Errorf("asked %q in 3 s, want 1 question", asked)
			}
		}
	})
}

// TestUsersHaveTheirOwnDecisions checks that users and groups with similar texts share no decision.
func TestUsersHaveTheirOwnDecisions(t *testing.T) {
	a := &api{}
	r := newReviews(t, a, kubeaccess.Options{})
	ids := []grpc.Identity{
		{User: "a"}, {User: "a", Groups: []string{"b", "c"}}, {User: "a", Groups: []string{"b\" \"c"}},
		{User: "a", Groups: []string{"b c"}}, {Groups: []string{"a"}},
	}
	for _, id := range append(ids, ids...) {
		access := statusOf("c1")
		access.Identity = id
		if err := r.Authorize(t.Context(), access); err != nil {
			t.Error(err)
		}
	}
	if asked := a.questions(); len(asked) != len(ids) {
		t.Errorf("asked %d questions, want %d", len(asked), len(ids))
	}
}

func TestEqualQuestionsAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{delay: time.Second}
		r := newReviews(t, a, kubeaccess.Options{})
		results := make(chan error)
		for i := range 100 {
			go func() { results <- r.Authorize(t.Context(), statusOf(fmt.Sprint("c", i%2))) }()
		}
		for range 100 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if asked := a.questions(); len(asked) != 2 {
			t.Errorf("asked %q, want 2 questions", asked)
		}
	})
}

// TestDecisionsUseBoundedMemory checks that decisions about long names replace older decisions.
func TestDecisionsUseBoundedMemory(t *testing.T) {
	a := &api{}
	r := newReviews(t, a, kubeaccess.Options{CacheTTL: 5 * time.Minute})
	r.SetMaxBytes(16 << 10)
	ask := func(cluster string) (asked int) {
		if err := r.Authorize(t.Context(), statusOf(cluster)); err != nil {
			t.Error(err)
		}
		return len(a.questions())
	}
	long := strings.Repeat("x", 512)
	for i := range 10 {
		if asked := ask(long + fmt.Sprint(i)); asked != 1 {
			t.Errorf("asked %d questions, want 1", asked)
		}
	}
	if ask(long+"0") != 0 {
		t.Error("10 KiB of decisions are not stored")
	}
	for i := range 10 {
		ask(long + fmt.Sprint("more", i))
	}
	if ask(long+"0") != 1 || ask(long+"more9") != 0 {
		t.Error("20 KiB of decisions are stored, or the last one is not")
	}
}

// TestFailures checks that an API server that does not decide denies no client for long, and allows
// none, and that its errors do not reach clients.
func TestFailures(t *testing.T) {
	respond := func(code int, reason metav1.StatusReason) func() (int, metav1.Status) {
		return func() (int, metav1.Status) {
			return code, metav1.Status{Status: metav1.StatusFailure, Reason: reason, Message: "details"}
		}
	}
	for name, row := range map[string]struct {
		api     *api
		code    codes.Code
		log     string
		minimum time.Duration
	}{
		"no connection":  {&api{err: errors.New("connection refused")}, codes.Unavailable, "connection refused", 0},
		"no answer":      {&api{delay: time.Hour}, codes.Unavailable, "deadline exceeded", 2 * time.Second},
		"internal error": {&api{fail: respond(500, metav1.StatusReasonInternalError)}, codes.Unavailable, "no answer", 0},
		"forbidden": {&api{fail: respond(403, metav1.StatusReasonForbidden)}, codes.Unavailable,
			"system:auth-delegator", 0},
		"unauthorized": {&api{fail: respond(401, metav1.StatusReasonUnauthorized)}, codes.Unavailable,
			"system:auth-delegator", 0},
		"too many requests": {&api{fail: respond(429, metav1.StatusReasonTooManyRequests)}, codes.Unavailable,
			"no answer", 0},
		"rejected": {&api{fail: respond(422, metav1.StatusReasonInvalid)}, codes.Unknown, "rejected", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReviews(t, row.api, kubeaccess.Options{Timeout: 2 * time.Second})
				var log strings.Builder
				logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10)))
				ctx := klog.NewContext(t.Context(), logger)
				begin := time.Now()
				accessErr := r.Authorize(ctx, statusOf("c1"))
				_, tokenErr := r.AuthenticateToken(ctx, secret)
				if took := time.Since(begin); took < 2*row.minimum || took > 4*time.Second {
					t.Errorf("took %v, want between %v and 4s", took, 2*row.minimum)
				}
				for _, err := range []error{accessErr, tokenErr} {
					if err == nil || status.Code(err) != row.code {
						t.Fatalf("got %v, want an error with the code %v", err, row.code)
					}
					for _, hidden := range []string{secret, "internal.example.com", "details"} {
						if strings.Contains(err.Error(), hidden) {
							t.Errorf("the error has %q: %v", hidden, err)
						}
					}
				}
				if !strings.Contains(log.String(), row.log) || strings.Count(log.String(), "\n") != 2 {
					t.Errorf("the log is not two lines with %q:\n%s", row.log, &log)
				}
				if strings.Contains(log.String(), secret) {
					t.Errorf("the log has a token:\n%s", &log)
				}
				row.api.set(func() { row.api.err, row.api.fail, row.api.delay = nil, nil, 0 })
				if err := r.Authorize(t.Context(), statusOf("c1")); err != nil {
					t.Errorf("after the failure: %v", err)
				}
			})
		})
	}
}

// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The tests encode objects with the libraries that API servers use.

func metadataOf(name, version string, annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid", ResourceVersion: version,
			Annotations: annotations},
	}
}

type protobufObject interface{ Marshal() ([]byte, error) }

func wrap(t testing.TB, kind string, object protobufObject) []byte {
	t.Helper()
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(protobufMagic), body...)
}

func protobufFrame(t testing.TB, kind string, object []byte) []byte {
	t.Helper()
	body, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func jsonFrame(t testing.TB, kind string, object any) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return append(body, '\n')
}

// encodings returns, for each encoding, its reader and a function that makes its frames.
func encodings(t testing.TB) map[string]struct {
	read  func(io.Reader) frames
	frame func(kind, objectKind string, object protobufObject) []byte
} {
	type encoding = struct {
		read  func(io.Reader) frames
		frame func(kind, objectKind string, object protobufObject) []byte
	}
	return map[string]encoding{
		"protobuf": {
			func(r io.Reader) frames { return &protobufFrames{body: r} },
			func(kind, objectKind string, object protobufObject) []byte {
				return protobufFrame(t, kind, wrap(t, objectKind, object))
			},
		},
		"JSON": {
			func(r io.Reader) frames { return newJSONFrames(r, false) },
			func(kind, _ string, object protobufObject) []byte { return jsonFrame(t, kind, object) },
		},
	}
}

func TestFramesBecomeEvents(t *testing.T) {
	for name, e := range encodings(t) {
		t.Run(name, func(t *testing.T) {
			var body bytes.Buffer
			for _, kind := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
				body.Write(e.frame(kind, "PartialObjectMetadata", metadataOf("a", "7", nil)))
			}
			body.Write(e.frame("BOOKMARK", "PartialObjectMetadata",
				metadataOf("", "9", map[string]string{metav1.InitialEventsAnnotationKey: "true"})))
			reader := e.read(&body)
			var got []Event
			for {
				event, err := reader.next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Fatalf("the end is %v", err)
					}
					break
				}
				got = append(got, event)
			}
			seen := Event{ResourceVersion: "7", UID: "uid", Namespace: "ns", Name: "a"}
			want := []Event{seen, seen, seen, seen, {Type: Synced, ResourceVersion: "9", UID: "uid", Namespace: "ns"}}
			for i, kind := range []Type{Added, Modified, Deleted, Bookmark} {
				want[i].Type = kind
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Event{}, "Object")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInvalidFramesAreErrors(t *testing.T) {
	for name, e := range encodings(t) {
		good := e.frame("ADDED", "PartialObjectMetadata", metadataOf("a", "7", nil))
		for _, test := range []struct {
			name string
			body io.Reader
			want string
		}{
			{"an unknown type", bytes.NewReader(e.frame("MOVED", "PartialObjectMetadata", metadataOf("a", "7", nil))),
				`unknown type "MOVED"`},
			{"cut in the middle", bytes.NewReader(good[:len(good)/2]), "unexpected EOF"},
			{"garbage", strings.NewReader("\x00\x00\x00\x04\xff\xff\xff\xffgarbage"), ""},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				_, err := e.read(test.body).next()
				if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %v, not %q", err, test.want)
				}
			})
		}
	}
}

// endless reads as a JSON string without an end.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, `{"type":"`), nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestOversizeFramesAreErrors(t *testing.T) {
	for name, reader := range map[string]frames{
		"protobuf": &protobufFrames{body: bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxFrame+1))},
		"JSON":     newJSONFrames(&endless{}, false),
	} {
		if _, err := reader.next(); err == nil || !strings.Contains(err.Error(), "16777216") {
			t.Errorf("%s: the error is %v, not the limit", name, err)
		}
	}
}

func TestErrorEventsAreStatusErrors(t *testing.T) {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410,
		Reason: metav1.StatusReasonExpired}
	for name, e := range encodings(t) {
		_, err := e.read(bytes.NewReader(e.frame("ERROR", "Status", status))).next()
		if !apierrors.IsResourceExpired(err) || !Expired(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := encodings(t)["protobuf"].read(
		bytes.NewReader(protobufFrame(t, "ERROR", wrap(t, "Pod", metadataOf("a", "1", nil))))).next(); err == nil ||
		!strings.Contains(err.Error(), "Pod") {
		t.Errorf("an ERROR that is no status is %v", err)
	}
}

func TestFramesOfWholeObjects(t *testing.T) {
	object := map[string]any{"kind": "Secret", "apiVersion": "v1",
		"metadata": map[string]any{"name": "a", "resourceVersion": "3"}, "data": map[string]any{"k": "v"}}
	e, err := newJSONFrames(bytes.NewReader(jsonFrame(t, "ADDED", object)), true).next()
	if err != nil {
		t.Fatal(err)
	}
	if value, _, _ := unstructured.NestedString(e.Object.Object, "data", "k"); value != "v" || e.Name != "a" ||
		e.ResourceVersion != "3" {
		t.Errorf("the event is %+v", e)
	}
}

func TestErrorResponsesAreStatusErrors(t *testing.T) {
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403,
		Reason: metav1.StatusReasonForbidden}
	inJSON, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Name: "a"}
	for _, test := range []struct {
		name   string
		code   int
		header http.Header
		body   []byte
		is     func(error) bool
	}{
		{"a status in JSON", 403, nil, inJSON, apierrors.IsForbidden},
		{"a status in protobuf", 403, nil, wrap(t, "Status", &status), apierrors.IsForbidden},
		{"text of a proxy", 503, nil, []byte("upstream connect error"), apierrors.IsServiceUnavailable},
		{"a binary body", 500, nil, []byte{0xff, 0xfe}, apierrors.IsInternalError},
		{"no body", 401, nil, nil, apierrors.IsUnauthorized},
		{"a long text", 404, nil, bytes.Repeat([]byte("x"), maxStatus), apierrors.IsNotFound},
		{"too many requests", 429, http.Header{"Retry-After": {"7"}}, []byte("Too many requests"), func(err error) bool {
			seconds, ok := apierrors.SuggestsClientDelay(err)
			return apierrors.IsTooManyRequests(err) && ok && seconds == 7
		}},
	} {
		err := readStatus(&http.Response{StatusCode: test.code, Header: test.header}, target, test.body)
		if !test.is(err) || len(err.Error()) > 1000 {
			t.Errorf("%s: the error is %.200v", test.name, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	for _, e := range encodings(f) {
		f.Add(e.frame("ADDED", "PartialObjectMetadata", metadataOf("a", "7", nil)))
		f.Add(e.frame("ERROR", "Status", &metav1.Status{Code: 410}))
	}
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, reader := range []frames{&protobufFrames{body: bytes.NewReader(body)},
			newJSONFrames(bytes.NewReader(body), false), newJSONFrames(bytes.NewReader(body), true)} {
			for events := 0; ; events++ {
				e, err := reader.next()
				if err != nil {
					if e != (Event{}) && e.Object == nil {
						t.Fatalf("an event %+v comes with the error %v", e, err)
					}
					break
				}
				if e.Type < Added || e.Type > Bookmark {
					t.Fatalf("the event is %+v", e)
				}
				if events > len(body) {
					t.Fatal("there are more events than bytes")
				}
			}
		}
	})
}

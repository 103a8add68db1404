// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spokewire/sdk-go/internal/cut"
)

// maxFrame limits one event, in bytes. etcd accepts requests of 1.5 MiB.
const maxFrame = 16 << 20

// protobufMagic begins every object in protobuf.
var protobufMagic = []byte("k8s\x00")

// frames reads the events of a response body.
type frames interface {
	// wait returns when an event has begun to arrive, or immediately if it cannot detect that.
	wait() error
	next() (Event, error)
}

type protobufFrames struct {
	body io.Reader
	head [4]byte
	read bool // the head of the next event was read
}

func (f *protobufFrames) wait() error {
	if f.read {
		return nil
	}
	_, err := io.ReadFull(f.body, f.head[:])
	f.read = err == nil
	return err
}

func (f *protobufFrames) next() (Event, error) {
	if err := f.wait(); err != nil {
		return Event{}, err
	}
	f.read = false
	size := binary.BigEndian.Uint32(f.head[:])
	if size > maxFrame {
		return Event{}, fmt.Errorf("the server sent an event of %d bytes, more than the limit of %d", size, maxFrame)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(f.body, frame); err != nil {
		if errors.Is(err, io.EOF) { // within an event
			err = io.ErrUnexpectedEOF
		}
		return Event{}, err
	}
	var e metav1.WatchEvent
	if err := e.Unmarshal(frame); err != nil {
		return Event{}, fmt.Errorf("decode watch event: %w", err)
	}
	kind, raw, err := unwrapProtobuf(e.Object.Raw)
	if err != nil {
		return Event{}, err
	}
	if e.Type == string(watch.Error) {
		return Event{}, protobufStatus(kind, raw)
	}
	var obj metav1.PartialObjectMetadata
	if err := obj.Unmarshal(raw); err != nil {
		return Event{}, fmt.Errorf("decode object metadata: %w", err)
	}
	return metadataEvent(e.Type, &obj.ObjectMeta)
}

func unwrapProtobuf(raw []byte) (kind string, content []byte, err error) {
	rest, ok := bytes.CutPrefix(raw, protobufMagic)
	if !ok {
		return "", nil, errors.New("decode protobuf object: the magic number is missing")
	}
	var u runtime.Unknown
	if err := u.Unmarshal(rest); err != nil {
		return "", nil, fmt.Errorf("decode protobuf object: %w", err)
	}
	return u.Kind, u.Raw, nil
}

func protobufStatus(kind string, raw []byte) error {
	var status metav1.Status
	if kind != "Status" {
		return fmt.Errorf("the server ended the watch with a %s", kind)
	}
	if err := status.Unmarshal(raw); err != nil {
		return fmt.Errorf("decode the status that ended the watch: %w", err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

type jsonFrames struct {
	decoder *json.Decoder
	limited *io.LimitedReader
	whole   bool
}

func newJSONFrames(body io.Reader, whole bool) *jsonFrames {
	limited := &io.LimitedReader{R: body}
	return &jsonFrames{decoder: json.NewDecoder(limited), limited: limited, whole: whole}
}

func (f *jsonFrames) wait() error { return nil }

type jsonEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (f *jsonFrames) next() (Event, error) {
	f.limited.N = maxFrame
	var e jsonEvent
	if err := f.decoder.Decode(&e); err != nil {
		if f.limited.N <= 0 {
			return Event{}, fmt.Errorf("the server sent an event of more than %d bytes", maxFrame)
		}
		return Event{}, err
	}
	if e.Type == string(watch.Error) {
		status := &apierrors.StatusError{}
		if err := json.Unmarshal(e.Object, &status.ErrStatus); err != nil {
			return Event{}, fmt.Errorf("decode the status that ended the watch: %w", err)
		}
		return Event{}, status
	}
	if f.whole && e.Type != string(watch.Bookmark) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(e.Object); err != nil {
			return Event{}, fmt.Errorf("decode object: %w", err)
		}
		return objectEvent(e.Type, obj)
	}
	var obj struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(e.Object, &obj); err != nil {
		return Event{}, fmt.Errorf("decode object metadata: %w", err)
	}
	return metadataEvent(e.Type, &obj.ObjectMeta)
}

// objectEvent is metadataEvent for a whole object.
func objectEvent(wire string, obj *unstructured.Unstructured) (Event, error) {
	e, err := metadataEvent(wire, obj)
	e.Object = obj
	return e, err
}

func metadataEvent(wire string, obj metav1.Object) (Event, error) {
	e := Event{
		ResourceVersion: obj.GetResourceVersion(), UID: obj.GetUID(),
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Deleting: obj.GetDeletionTimestamp() != nil,
	}
	if e.UID == "" { // objects of aggregated APIs may have no UID
		e.UID = types.UID(e.Namespace + "/" + e.Name)
	}
	switch watch.EventType(wire) {
	case watch.Added:
		e.Type = Added
	case watch.Modified:
		e.Type = Modified
	case watch.Deleted:
		e.Type = Deleted
	case watch.Bookmark:
		e.Type = Bookmark
		if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			e.Type = Synced
		}
	default:
		return Event{}, fmt.Errorf("watch event has the unknown type %q", wire)
	}
	return e, nil
}

// readStatus returns the error of a response that is not a success.
func readStatus(resp *http.Response, t Target, body []byte) error {
	var status metav1.Status
	if _, raw, err := unwrapProtobuf(body); err == nil {
		if err := status.Unmarshal(raw); err == nil && status.Reason != "" {
			return &apierrors.StatusError{ErrStatus: status}
		}
	} else if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" && status.Reason != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return apierrors.NewGenericServerResponse(
		resp.StatusCode, "watch", t.Resource.GroupResource(), t.Name, excerpt(body), retryAfter, true)
}

func excerpt(body []byte) string {
	if !utf8.Valid(body) {
		return "the server's answer is not text"
	}
	return cut.Text(string(body), 256)
}
